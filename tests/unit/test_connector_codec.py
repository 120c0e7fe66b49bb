"""Messages become bytes and come back."""

from __future__ import annotations

import types
import typing
from typing import Any, TypeVar

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from talkwire_pipeline.connector import codec
from talkwire_pipeline.errors import InternalError
from talkwire_pipeline.geometry import Geometry
from talkwire_pipeline.messages import MESSAGES, Abort, Audio, Failed, Message, Rows

naturals = st.integers(0, 2**63 - 1)
numbers = st.floats(allow_nan=False)
values = st.recursive(
    st.none() | st.booleans() | naturals | numbers | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def strategy(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of a field."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is np.ndarray:
        return arrays(typing.get_args(args[1])[0])
    if origin is dict:
        return st.dictionaries(st.text(max_size=9), values if args[1] is Any else strategy(args[1]), max_size=4)
    if origin is tuple:
        return st.lists(strategy(args[0]), max_size=4).map(tuple)
    if origin is typing.Literal:
        return st.sampled_from(args)
    if args:  # a union
        return st.one_of([strategy(each) for each in args])
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return st.builds(annotation, **fields(annotation))
    return {int: naturals, float: numbers, str: st.text(max_size=40), bool: st.booleans()}[annotation]


def fields(struct: type[msgspec.Struct]) -> dict[str, st.SearchStrategy[Any]]:
    return {field.name: strategy(field.type) for field in msgspec.structs.fields(struct)}


def arrays(dtype: type) -> st.SearchStrategy[Any]:
    shapes = hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=5)
    whole = hnp.arrays(dtype, shapes)
    return whole | whole.map(np.transpose) | whole.map(lambda array: array[::2])


def encode(message: Message) -> memoryview:
    encoded = codec.encode(message)
    payload = memoryview(bytearray(encoded.size))
    encoded.write_to(payload)
    return payload


def decode(message: Message, payload: memoryview) -> Message:
    return codec.decode(message.kind, message.generation, payload)


@pytest.mark.parametrize("kind", sorted(MESSAGES))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_message_comes_back(kind: int, data: st.DataObject) -> None:
    message = data.draw(strategy(MESSAGES[kind]))
    back = decode(message, encode(message))
    assert type(back) is type(message)
    for name in message.__struct_fields__:
        expected, actual = getattr(message, name), getattr(back, name)
        if isinstance(expected, np.ndarray):
            assert actual.dtype == expected.dtype
            np.testing.assert_array_equal(actual, expected, strict=True)
        else:
            assert actual == expected


def test_arrays_are_aligned_read_only_views() -> None:
    message = Rows(generations=np.array([3, 4, 5], np.uint64), codes=np.ones((3, 8), np.int16))
    payload = encode(message)
    back = decode(message, payload.toreadonly())
    assert isinstance(back, Rows)
    start = np.frombuffer(payload, np.uint8).ctypes.data
    for array in (back.generations, back.codes):
        assert (array.ctypes.data - start) % 8 == 0
        assert not array.flags.writeable
        assert np.shares_memory(array, np.frombuffer(payload, np.uint8))


def test_defaults_of_nested_values_come_back() -> None:
    geometry = Geometry(preset="custom", ramp=(2, 4))
    message = MESSAGES[16](generation=9, geometry=geometry, credit_samples=1, dry_ns=2, max_rows=3)  # type: ignore[call-arg]
    assert decode(message, encode(message)) == message


def test_a_wrong_dtype_is_named() -> None:
    with pytest.raises(InternalError, match=r"Audio\.samples: an array of float64 where float32 belongs"):
        codec.encode(Audio(generation=1, first_sample=0, samples=np.zeros(4)))  # type: ignore[arg-type]


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(InternalError, match="kind 99"):
        codec.decode(99, 1, memoryview(b""))


def test_a_body_of_another_class_is_refused() -> None:
    with pytest.raises(InternalError, match="Audio: cannot be read"):
        codec.decode(Audio.kind, 1, encode(Abort(generation=1)))


def test_an_array_that_goes_beyond_the_payload_is_refused() -> None:
    payload = encode(Audio(generation=1, first_sample=0, samples=np.zeros(4, np.float32)))
    with pytest.raises(InternalError, match="Audio: cannot be read"):
        codec.decode(Audio.kind, 1, payload[:-8])


@settings(max_examples=200)
@given(st.sampled_from(sorted(MESSAGES)), st.binary(max_size=60))
def test_no_bytes_do_more_than_be_refused(kind: int, content: bytes) -> None:
    try:
        codec.decode(kind, 1, memoryview(content))
    except InternalError:
        return


def test_a_long_text_fits() -> None:
    message = Failed(generation=1, detail="é" * 100_000)
    assert decode(message, encode(message)) == message


def test_an_array_is_known_behind_an_alias_that_has_to_be_looked_into() -> None:
    """As numpy 2.5 has `NDArray` on Python 3.12."""
    scalar = TypeVar("scalar", bound=np.generic)

    class Alias:
        __value__ = np.ndarray[Any, np.dtype[scalar]]  # type: ignore[valid-type]

    behind = types.GenericAlias(Alias, (np.int16,))
    assert codec._is_array(behind)
    assert codec._dtype(behind) == np.int16
    assert not codec._is_array(types.GenericAlias(list, (int,)))
