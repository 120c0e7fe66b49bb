"""Messages as bytes, and back.

A payload is: one word with the body's length; the body, a msgpack array of the fields in the order of their class,
each array's shape in its place at the end; then the arrays, raw. Arrays begin at multiples of 8 bytes. The message's
kind and generation are in the record's header. Never pickle: bytes become the fields that the class names or an error.
"""

from __future__ import annotations

import typing
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from talkwire_pipeline.errors import InternalError
from talkwire_pipeline.messages import MESSAGES, Message

_PREFIX_BYTES = 8
_encoder = msgspec.msgpack.Encoder()


def _aligned(size: int) -> int:
    return -(-size // 8) * 8


class Encoded(NamedTuple):
    """A message on its way: `size` bytes once written. The arrays are still the message's own."""

    size: int
    body: bytes
    arrays: list[npt.NDArray[Any]]

    def write_to(self, payload: memoryview) -> None:
        """Writes it into `payload`, which has `size` bytes and is 8-byte aligned."""
        at = _PREFIX_BYTES + len(self.body)
        payload[:_PREFIX_BYTES] = len(self.body).to_bytes(_PREFIX_BYTES, "little")
        payload[_PREFIX_BYTES:at] = self.body
        for array in self.arrays:
            at = _aligned(at)
            if array.size:  # an empty one cannot be cast
                payload[at : at + array.nbytes] = array.data.cast("B")
                at += array.nbytes


class _Layout:
    """How one class is laid out; made once."""

    def __init__(self, message: type[Message]) -> None:
        fields = [field for field in msgspec.structs.fields(message) if field.name != "generation"]
        plain = {field.name: field.type for field in fields if not _is_array(field.type)}
        self._message = message
        self._plain = tuple(plain)
        self._dtypes = {field.name: _dtype(field.type) for field in fields if _is_array(field.type)}
        shapes = (tuple[int, ...],) * len(self._dtypes)
        self._decoder: msgspec.msgpack.Decoder[tuple[Any, ...]] = msgspec.msgpack.Decoder(
            tuple[(*plain.values(), *shapes)]  # type: ignore[misc]
        )

    def encode(self, message: Message) -> Encoded:
        values = [getattr(message, name) for name in self._plain]
        arrays = [self._array(message, name) for name in self._dtypes]
        body = _encoder.encode(values + [array.shape for array in arrays])
        size = _PREFIX_BYTES + len(body)
        for array in arrays:
            size = _aligned(size) + array.nbytes
        return Encoded(size, body, arrays)

    def _array(self, message: Message, name: str) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = getattr(message, name)
        if array.dtype != self._dtypes[name]:
            where = f"{self._message.__name__}.{name}"
            raise InternalError(f"{where}: an array of {array.dtype} where {self._dtypes[name]} belongs")
        return np.ascontiguousarray(array)

    def decode(self, generation: int, payload: memoryview) -> Message:
        end = _PREFIX_BYTES + int.from_bytes(payload[:_PREFIX_BYTES], "little")
        values = self._decoder.decode(payload[_PREFIX_BYTES:end])
        fields = dict(zip(self._plain, values, strict=False))
        for (name, dtype), shape in zip(self._dtypes.items(), values[len(self._plain) :], strict=True):
            end = _aligned(end)
            fields[name] = array = np.ndarray(shape, dtype, payload, end)
            end += array.nbytes
        return self._message(generation=generation, **fields)


def _expanded(annotation: Any) -> Any:
    """What an `NDArray[T]` stands for: from numpy 2.5 on it is an alias that has to be looked into."""
    value = getattr(typing.get_origin(annotation), "__value__", None)
    return annotation if value is None else value[typing.get_args(annotation)]


def _is_array(annotation: object) -> bool:
    return typing.get_origin(_expanded(annotation)) is np.ndarray


def _dtype(annotation: object) -> np.dtype[Any]:
    """Of an `NDArray[T]`, which is `ndarray[shape, dtype[T]]`."""
    dtype: np.dtype[Any] = np.dtype(typing.get_args(typing.get_args(_expanded(annotation))[1])[0])
    return dtype


_LAYOUTS = {kind: _Layout(message) for kind, message in MESSAGES.items()}


def encode(message: Message) -> Encoded:
    """The message as bytes to be written. Raises `InternalError` for an array of another dtype than its field's."""
    return _LAYOUTS[message.kind].encode(message)


def decode(kind: int, generation: int, payload: memoryview) -> Message:
    """The message in `payload`. Its arrays are views of it.

    Raises `InternalError` for bytes that are no message of this kind.
    """
    known = _LAYOUTS.get(kind)
    if known is None:
        raise InternalError(f"a message of kind {kind}, which nobody knows: do both processes run the same version?")
    try:
        return known.decode(generation, payload)
    except (ValueError, TypeError) as error:  # msgspec's own errors are ValueErrors, numpy's either
        raise InternalError(f"{MESSAGES[kind].__name__}: cannot be read: {error}") from error
