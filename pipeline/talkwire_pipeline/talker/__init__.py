"""The talker stage: token ids in, code rows out."""
