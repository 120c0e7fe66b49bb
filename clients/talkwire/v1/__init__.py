"""Generated from `protos/talkwire/v1/speech.proto` by `make protos`."""
