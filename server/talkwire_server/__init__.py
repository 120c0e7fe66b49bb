"""The front of talkwire: gRPC in, gRPC out, over a `talkwire_pipeline.Pipeline`."""
