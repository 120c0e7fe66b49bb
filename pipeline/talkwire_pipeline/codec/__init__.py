"""The codec: code rows in, samples out. `decoder` (torch) is the model; the rest decides what it decodes when."""
