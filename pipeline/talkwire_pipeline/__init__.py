"""The model pipeline of talkwire: text to token ids, code rows, PCM. It knows nothing of gRPC."""
