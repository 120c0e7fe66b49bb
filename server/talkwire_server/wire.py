"""Bytes to requests, without raising: a message that cannot be read must not cost the caller its stream.

gRPC ends an RPC with UNKNOWN when a deserialiser raises, so ours returns `Malformed` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from talkwire_pipeline.errors import InvalidArgumentError

TRANSPORT_LIMIT_BYTES = 16 << 20
"""Past this gRPC itself kills the call. Our own limit lies below it, so that the caller gets an answer."""

_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True, slots=True)
class Malformed:
    """A request that could not be read."""

    error: InvalidArgumentError


def parser(message_type: type[_M], max_bytes: int) -> Callable[[bytes], _M | Malformed]:
    """A deserialiser of `message_type` that answers `Malformed` to what is no such message or over `max_bytes`."""

    def parse(data: bytes) -> _M | Malformed:
        if len(data) > max_bytes:
            return Malformed(_too_large(len(data), max_bytes))
        try:
            return message_type.FromString(data)
        except DecodeError:
            name = message_type.DESCRIPTOR.full_name
            text = f"the message of {len(data)} bytes is no {name}: not protobuf, or a string that is not UTF-8"
            return Malformed(_reason(InvalidArgumentError("", text), "MALFORMED_MESSAGE"))

    return parse


def _too_large(size: int, limit: int) -> InvalidArgumentError:
    text = f"the message has {size} bytes, more than the {limit} of server.max_message_bytes: send the text in pieces"
    return _reason(InvalidArgumentError("", text), "MESSAGE_TOO_LARGE")


def _reason(error: InvalidArgumentError, reason: str) -> InvalidArgumentError:
    error.reason = reason
    return error
