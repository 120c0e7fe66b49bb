"""The text front end: text as it is written in, prompts of speakable segments out. Pure: no torch, no gRPC."""
