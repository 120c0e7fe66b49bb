"""Messages as bytes: a head of 32 bytes, a msgpack body, and the arrays raw behind it.

head   u32 kind | u32 length of all | u32 length of the body | u32 sequence | u64 generation | u64 monotonic_ns
body   the message's fields as a msgpack array; an array field is its dtype and shape there
arrays in the order of the fields, each at a multiple of 8
"""

from __future__ import annotations

import math
import struct
import time
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from talkwire_pipeline.connector.ring import Buffer
from talkwire_pipeline.messages import MESSAGES, Message

HEAD = struct.Struct("<IIIIQQ")
"""The head of every record."""
_WRAP = 1 << 32


@dataclass(frozen=True, slots=True)
class Received:
    """A message and what its head says. Arrays of the message are views that end when the next one is asked for."""

    message: Message
    sequence: int
    sent_ns: int


def _aligned(size: int) -> int:
    return size + -size % 8


class Encoder:
    """Messages to the parts of a record. One for each writer: it counts them."""

    def __init__(self) -> None:
        self._arrays: list[npt.NDArray[Any]] = []
        self._msgpack = msgspec.msgpack.Encoder(enc_hook=self._lift)
        self._sequence = 0

    def _lift(self, value: object) -> tuple[str, tuple[int, ...]]:
        """An array leaves its dtype and shape in the body."""
        if not isinstance(value, np.ndarray):
            raise TypeError(f"a message cannot carry {type(value).__name__}")
        array = np.ascontiguousarray(value)
        self._arrays.append(array)
        return array.dtype.str, array.shape

    def encode(self, message: Message) -> tuple[list[Buffer], int]:
        """The parts of the record, and its length in bytes."""
        self._arrays.clear()
        body = self._msgpack.encode(message)
        parts: list[Buffer] = [b"", body, *(array.reshape(-1).view(np.uint8).data for array in self._arrays)]
        size = HEAD.size + sum(_aligned(len(part)) for part in parts)
        sequence = self._sequence % _WRAP
        parts[0] = HEAD.pack(message.kind, size, len(body), sequence, message.generation, time.monotonic_ns())
        return parts, size

    def sent(self) -> None:
        """The last record was written: the next has the next sequence number."""
        self._sequence += 1


class Decoder:
    """Records to messages."""

    def __init__(self) -> None:
        self._decoders = {
            kind: msgspec.msgpack.Decoder(message, dec_hook=self._ground) for kind, message in MESSAGES.items()
        }
        self._record = memoryview(b"")
        self._offset = 0

    def _ground(self, _kind: type, value: tuple[str, tuple[int, ...]]) -> npt.NDArray[Any]:
        """The next array: a read-only view into the record."""
        dtype, shape = np.dtype(value[0]), value[1]
        count = math.prod(shape)
        array = np.frombuffer(self._record, dtype, count, self._offset).reshape(shape)
        self._offset += _aligned(count * dtype.itemsize)
        return array

    def decode(self, record: memoryview) -> Received:
        """The message in a record, its arrays as views into it."""
        kind, _, length, sequence, _, sent_ns = HEAD.unpack_from(record)
        self._record = record
        self._offset = HEAD.size + _aligned(length)
        message = self._decoders[kind].decode(record[HEAD.size : HEAD.size + length])
        self._record = memoryview(b"")
        return Received(message, sequence, sent_ns)
