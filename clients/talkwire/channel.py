"""How the client opens channels."""

from __future__ import annotations

import grpc
import grpc.aio

from talkwire.access import Access

OPTIONS: tuple[tuple[str, int], ...] = (
    # With the probe, gRPC takes about 4 MiB (87 s of speech) off the wire for a client that reads nothing, and the
    # server cannot see that it is slow.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.max_receive_message_length", 16 << 20),
    # A peer that vanished without a word ends the calls within half a minute instead of never.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)


def open_async(access: Access) -> grpc.aio.Channel:
    """A channel for the running event loop; without credentials it is plaintext."""
    options = (*OPTIONS, *access.options)
    if access.credentials is None:
        return grpc.aio.insecure_channel(access.target, options=options)
    return grpc.aio.secure_channel(access.target, access.credentials, options=options)


def open_blocking(access: Access) -> grpc.Channel:
    """The same for threads."""
    options = (*OPTIONS, *access.options)
    if access.credentials is None:
        return grpc.insecure_channel(access.target, options=options)
    return grpc.secure_channel(access.target, access.credentials, options=options)
