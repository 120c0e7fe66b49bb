"""The ring's arithmetic."""

from __future__ import annotations

import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talkwire_pipeline.connector import layout
from talkwire_pipeline.connector.layout import COUNTS, POSITIONS

counts = st.integers(0, COUNTS - 1)
positions = st.integers(0, POSITIONS - 1)


@given(counts, positions)
def test_a_cursor_is_one_word(count: int, position: int) -> None:
    word = layout.pack_cursor(count, position)
    assert 0 <= word < 1 << 64
    assert layout.unpack_cursor(word) == (count, position)


@given(positions, st.integers(0, POSITIONS // 2 - 1))
def test_distances_survive_the_wrap(start: int, step: int) -> None:
    assert layout.distance((start + step) % POSITIONS, start, POSITIONS) == step


@given(positions, st.integers(1, POSITIONS // 2))
def test_who_is_behind_is_no_distance_ahead(start: int, step: int) -> None:
    assert layout.distance(start, (start + step) % POSITIONS, POSITIONS) == 0


@given(positions, st.integers(0, POSITIONS // 2 - 1))
def test_the_smaller_of_two_is_found_across_the_wrap(start: int, step: int) -> None:
    ahead = (start + step) % POSITIONS
    assert layout.at_most(ahead, start, POSITIONS) == layout.at_most(start, ahead, POSITIONS) == start


@pytest.mark.parametrize(
    ("asked_bytes", "given_bytes"),
    [(1, mmap.PAGESIZE), (4096, 4096), (4097, 8192), (1 << 20, 1 << 20), ((1 << 20) + 1, 2 << 20)],
)
def test_capacities_are_powers_of_two(asked_bytes: int, given_bytes: int) -> None:
    assert layout.capacity_words(asked_bytes) * layout.WORD_BYTES == given_bytes


@given(positions, st.integers(9, 14), st.data())
def test_a_record_lies_together_and_the_largest_fits_an_empty_ring(
    position: int, log: int, data: st.DataObject
) -> None:
    capacity = 1 << log
    need = data.draw(st.integers(1, capacity // 2))
    filler = layout.filler_before(position, need, capacity)
    first = (position + filler) % capacity
    assert first + need <= capacity
    assert filler in (0, capacity - position % capacity)
    assert filler + need <= capacity


@pytest.mark.parametrize(("size_bytes", "words"), [(0, 0), (1, 1), (8, 1), (9, 2)])
def test_sizes_in_words(size_bytes: int, words: int) -> None:
    assert layout.words_of(size_bytes) == words
