"""The blocking way to speak: one call, no event loop, so it works in notebooks and threads too."""

from __future__ import annotations

from typing import Unpack

import grpc

from talkwire.audio import Speech, SpeechBuilder
from talkwire.channel import Metadata, open_blocking
from talkwire.client import DEFAULT_TARGET
from talkwire.errors import from_rpc
from talkwire.options import Options, build_start
from talkwire.v1 import speech_pb2 as pb
from talkwire.v1.speech_pb2_grpc import SpeechServiceStub


def speak(
    text: str,
    *,
    target: str = DEFAULT_TARGET,
    credentials: grpc.ChannelCredentials | None = None,
    metadata: Metadata = (),
    **options: Unpack[Options],
) -> Speech:
    """Speaks a whole text and returns its audio. Raises a `TalkwireError` where that fails."""
    request = pb.SynthesizeRequest(start=build_start(options), text=text)
    builder = SpeechBuilder()
    with open_blocking(target, credentials) as channel:
        try:
            for response in SpeechServiceStub(channel).Synthesize(request, metadata=tuple(metadata)):
                if name := response.WhichOneof("event"):
                    builder.add(getattr(response, name))
        except grpc.RpcError as error:
            raise from_rpc(error) from error
    return builder.build()
