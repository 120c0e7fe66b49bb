"""Windows: how large chunks may be, what context they get, and that few shapes are met."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from talkwire_pipeline.codec.windows import (
    LADDER,
    Shape,
    chunk_limit,
    chunk_sizes,
    inner_window,
    last_window,
    likely_shapes,
)
from talkwire_pipeline.geometry import PRESETS, Geometry

EXACT = PRESETS["exact"]
sizes = st.integers(1, 500)
contexts = st.integers(0, 100)


@given(initial=sizes, steady=sizes, left=contexts, bound=st.integers(1, 1000))
def test_sizes_ascend_from_initial_and_keep_a_call_within_its_bound(
    initial: int, steady: int, left: int, bound: int
) -> None:
    geometry = Geometry(initial=initial, steady=steady, left=left)
    limit = chunk_limit(geometry, bound)
    chosen = chunk_sizes(geometry, limit)
    assert chosen[0] == min(initial, limit)
    assert chosen[-1] == min(max(initial, steady), limit)
    assert list(chosen) == sorted(set(chosen))
    largest = inner_window(geometry, 1000, chosen[-1], geometry.holdback).shape.total
    assert largest <= bound or chosen == (1,)


def test_the_default_geometry_has_six_sizes() -> None:
    assert chunk_sizes(EXACT, chunk_limit(EXACT, 48)) == (4, 6, 9, 13, 18, 25)


def test_context_that_the_decoder_does_not_see_is_left_out() -> None:
    wide = Geometry(preset="custom", left=25, holdback=40)
    assert inner_window(wide, 100, 4, wide.holdback).shape == Shape(10, 4, 10)
    assert inner_window(wide, 3, 4, wide.holdback).shape == Shape(3, 4, 10)
    assert inner_window(PRESETS["v2"], 100, 25, 0).shape == Shape(8, 25, 0)


@given(start=st.integers(0, 50), frames=st.integers(1, 28))
def test_a_last_window_takes_a_size_of_the_ladder_and_always_pads_its_tail(start: int, frames: int) -> None:
    window = last_window(PRESETS["v2"], start, frames, 28)
    assert (window.start, window.frames, window.stop) == (start, frames, start + frames)
    assert window.shape.size in (*LADDER, 28)
    assert frames <= window.shape.size <= 28
    assert window.shape.right == 10


def test_a_warm_up_takes_few_shapes_and_covers_the_first_steady_and_last_chunks() -> None:
    shapes = likely_shapes(PRESETS["exact-fast"], 28)
    assert len(shapes) == len(set(shapes)) < 20
    assert {Shape(0, 4, 4), Shape(4, 6, 10), Shape(10, 25, 10), Shape(10, 28, 10)} <= set(shapes)
    assert max(shape.total for shape in shapes) == 48
