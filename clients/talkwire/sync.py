"""The blocking way to speak: one call, no event loop, so it works in notebooks and threads too."""

from __future__ import annotations

from typing import Unpack

import grpc

from talkwire.access import Metadata, Tls, access
from talkwire.audio import Speech, SpeechBuilder
from talkwire.channel import open_blocking
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
    tls: Tls | None = None,
    token: str | None = None,
    metadata: Metadata = (),
    **options: Unpack[Options],
) -> Speech:
    """Speaks a whole text and returns its audio; `tls` and the rest as for `SpeechClient`.

    Raises a `TalkwireError` where that fails.
    """
    server = access(target, credentials=credentials, tls=tls, token=token, metadata=metadata)
    request = pb.SynthesizeRequest(start=build_start(options), text=text)
    builder = SpeechBuilder()
    with open_blocking(server) as channel:
        try:
            for response in SpeechServiceStub(channel).Synthesize(request, metadata=server.metadata):
                if name := response.WhichOneof("event"):
                    builder.add(getattr(response, name))
        except grpc.RpcError as error:
            raise from_rpc(error) from error
    return builder.build()
