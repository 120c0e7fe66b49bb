"""The schedule: which chunk comes next, in virtual time. Nobody starves as long as the machine can keep up."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from talkwire_pipeline.codec.schedule import (
    FRAME_S,
    CallCost,
    Cuts,
    Outlook,
    RowPace,
    batch_sizes,
    count_hungry,
    form_batch,
    next_window,
    work,
)
from talkwire_pipeline.codec.windows import Shape, Window
from talkwire_pipeline.delay import DELAY
from talkwire_pipeline.geometry import PRESETS, Geometry

FAST = CallCost(0.002, 0.00135)
CALM = Outlook(
    start=0,
    chunks=0,
    frames=100,
    ended=False,
    buffer_s=0.0,
    credit_frames=10_000,
    initial_credit_frames=10_000,
    untaken=False,
    row_s=0.005,
    cost=FAST,
)


def size_of(outlook: Outlook, geometry: Geometry = PRESETS["exact"]) -> int:
    """Frames of the next chunk; 0: it waits."""
    window = next_window(Cuts(geometry, 48), outlook)
    return window.frames if window else 0


# ---- one choice


def test_a_first_chunk_is_the_smallest_on_an_idle_machine_and_grows_under_load() -> None:
    assert size_of(CALM) == 4
    grown = [size_of(replace(CALM, hungry=hungry)) for hungry in (1, 4, 8, 12, 16, 64)]
    assert grown == sorted(grown)
    assert 4 < grown[3] < 25
    assert grown[-1] == 25
    assert size_of(replace(CALM, frames=8, row_s=0.03)) == 0, "slow rows: a larger chunk, so it waits"


def test_chunks_grow_with_what_the_player_has_left() -> None:
    playing = replace(CALM, start=40, chunks=3)
    sizes = [size_of(replace(playing, buffer_s=left)) for left in (0.0, 0.02, 0.05, 1.0, 5.0)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (4, 25)


def test_a_chunk_waits_for_its_holdback_and_the_first_one_for_less_of_it() -> None:
    fast = PRESETS["exact-fast"]
    assert size_of(replace(CALM, frames=7), fast) == 0
    assert size_of(replace(CALM, frames=8), fast) == 4
    assert size_of(replace(CALM, frames=8)) == 0
    assert size_of(replace(CALM, frames=14)) == 4
    late = replace(CALM, start=4, chunks=1)
    assert size_of(replace(late, frames=17), fast) == 0
    assert size_of(replace(late, frames=18), fast) == 4


def test_a_first_chunk_that_something_plays_before_needs_no_short_cut() -> None:
    window = next_window(Cuts(PRESETS["exact-fast"], 48), replace(CALM, buffer_s=3.0))
    assert window is not None
    assert window.shape == Shape(0, 25, 10)


def test_a_list_gives_the_first_sizes_then_comes_steady() -> None:
    listed = Geometry(preset="custom", ramp=(1, 3, 300), steady=9)
    assert [size_of(replace(CALM, chunks=chunks), listed) for chunks in range(5)] == [1, 3, 28, 9, 9]
    assert size_of(CALM, replace_ramp(listed, ())) == 4


def replace_ramp(geometry: Geometry, ramp: tuple[int, ...]) -> Geometry:
    return Geometry(preset="custom", ramp=ramp, initial=geometry.initial, steady=geometry.steady)


def test_an_end_frees_the_last_frames_and_a_small_rest_joins_the_chunk_before_it() -> None:
    ended = replace(CALM, start=90, chunks=5, ended=True, buffer_s=5.0)
    assert size_of(ended) == 10
    assert size_of(replace(ended, start=72)) == 28
    assert size_of(replace(ended, start=71)) == 25, "29 frames are more than one call takes"
    assert size_of(replace(ended, start=90, buffer_s=0.0)) == 4
    assert size_of(replace(ended, start=94, buffer_s=0.0)) == 6
    window = next_window(Cuts(PRESETS["exact"], 48), ended)
    assert window is not None
    assert window.shape == Shape(10, 13, 10), "a size of the ladder, with repeats of the last frame"


def test_credit_cuts_a_chunk_or_holds_it_back_while_the_reader_has_something_to_take() -> None:
    deep = replace(CALM, start=40, chunks=3, buffer_s=5.0, initial_credit_frames=60)
    assert size_of(replace(deep, credit_frames=25)) == 25
    assert size_of(replace(deep, credit_frames=24, untaken=True)) == 0
    assert size_of(replace(deep, credit_frames=24)) == 18
    assert size_of(replace(deep, credit_frames=1)) == 1
    assert size_of(replace(deep, credit_frames=0)) == 0
    small = replace(deep, initial_credit_frames=10, untaken=True)
    assert size_of(replace(small, credit_frames=5)) == 4
    assert size_of(replace(small, credit_frames=4)) == 0


def test_a_batch_is_of_one_shape_and_bounded_but_never_empty() -> None:
    a, b = Window(0, 4, Shape(0, 4, 10)), Window(50, 25, Shape(10, 25, 10))
    assert form_batch([(1, a), (2, b), (3, a), (4, a), (5, a)], 48) == [(1, a), (3, a)], "a power of two"
    assert form_batch([(1, a), (2, b), (3, a), (4, a), (5, a)], 56) == [(1, a), (3, a), (4, a), (5, a)]
    assert batch_sizes(a.shape, 48) == [1, 2]
    assert batch_sizes(b.shape, 10) == [1]
    assert form_batch([(2, b), (1, a)], 48) == [(2, b)]
    assert form_batch([(2, b)], 10) == [(2, b)]
    assert form_batch([], 48) == []


def test_hungry_are_those_who_run_dry_within_a_second() -> None:
    assert count_hungry([0.0, 0.5, 1.5, 20.0]) == 2


# ---- what is measured


def test_the_pace_is_the_same_for_rows_that_come_one_by_one_and_in_bursts() -> None:
    single, bursts = RowPace(), RowPace()
    for step in range(400):
        single.observe(1, step * 8_000_000)
        if step % 20 == 0:
            bursts.observe(20, step * 8_000_000)
    assert single.row_s == pytest.approx(0.008, rel=0.01)
    assert bursts.row_s == pytest.approx(0.008, rel=0.01)


def test_a_pause_says_nothing_about_the_pace() -> None:
    pace = RowPace()
    for step in range(200):
        pace.observe(1, step * 8_000_000)
    pace.pause()
    pace.observe(1, 10**12)
    pace.observe(1, 10**12 + 8_000_000)
    assert pace.row_s == pytest.approx(0.008, rel=0.01)


def test_the_cost_is_fitted_on_an_idle_machine_and_follows_its_load() -> None:
    cost = CallCost()
    cost.fit((10, 0.015), (30, 0.035))
    assert cost.predict(20) == pytest.approx(0.025)
    for _ in range(40):
        cost.observe(20, 0.05)
    assert cost.predict(10) == pytest.approx(0.03, rel=0.01)


# ---- many choices, in virtual time


@dataclass
class Speaker:
    """A generation whose rows come steadily, and its player."""

    total: int
    begins_s: float = 0.0
    sizes: list[int] = field(default_factory=list)
    first_s: float | None = None
    dry_s: float = 0.0
    gaps_s: float = 0.0

    @property
    def sent(self) -> int:
        return sum(self.sizes)

    def buffer_s(self, now_s: float) -> float:
        return max(self.dry_s - now_s, 0.0)

    def next_row_s(self, now_s: float, row_s: float) -> float:
        rows = int(max(now_s - self.begins_s, 0.0) / row_s + 1e-9)
        return self.begins_s + (rows + 1) * row_s

    def take(self, frames: int, now_s: float) -> None:
        if self.first_s is None:
            self.first_s = now_s - self.begins_s
        else:
            self.gaps_s += max(now_s - self.dry_s, 0.0)
        self.dry_s = max(self.dry_s, now_s) + frames * FRAME_S
        self.sizes.append(frames)

    def outlook(self, now_s: float, row_s: float, cost: CallCost, hungry: int) -> Outlook:
        rows = int((now_s - self.begins_s) / row_s + 1e-9)
        return replace(
            CALM,
            start=self.sent,
            chunks=len(self.sizes),
            frames=max(0, min(rows - DELAY, self.total)),
            ended=rows >= self.total + DELAY,
            buffer_s=self.buffer_s(now_s),
            row_s=row_s,
            cost=cost,
            hungry=hungry,
        )


def play(speakers: list[Speaker], row_s: float, cost: CallCost, geometry: Geometry) -> None:
    """One decoder serves all until everything is sent, most urgent first."""
    cuts, now_s = Cuts(geometry, 48), 0.0
    while any(speaker.sent < speaker.total for speaker in speakers):
        live = [s for s in speakers if s.begins_s <= now_s and s.sent < s.total]
        hungry = max(count_hungry(s.buffer_s(now_s) for s in live), 1)
        found = [(s.dry_s, i, next_window(cuts, s.outlook(now_s, row_s, cost, hungry))) for i, s in enumerate(live)]
        ready = sorted((dry, i) for dry, i, window in found if window)
        batch = form_batch([(i, w) for _, i in ready if (w := found[i][2])], 48)
        if batch:
            now_s += cost.predict(len(batch) * work(batch[0][1].shape))
        else:  # as in the codec's loop, nothing changes before the next row
            now_s = min(speaker.next_row_s(now_s, row_s) for speaker in speakers if speaker.sent < speaker.total)
        for i, window in batch:
            live[i].take(window.frames, now_s)


presets = st.sampled_from([PRESETS["exact"], PRESETS["exact-fast"]])


@settings(max_examples=40, deadline=None)
@given(
    total=st.integers(1, 120),
    row_s=st.floats(0.002, 0.02),
    call_s=st.floats(0.001, 0.02),
    frame_s=st.floats(0.0001, 0.01),
    geometry=presets,
)
def test_one_speaker_never_starves(total: int, row_s: float, call_s: float, frame_s: float, geometry: Geometry) -> None:
    speaker = Speaker(total)
    play([speaker], row_s, CallCost(call_s, frame_s), geometry)
    assert speaker.sent == total
    assert speaker.gaps_s == 0
    assert max(speaker.sizes) <= 28


@settings(max_examples=25, deadline=None)
@given(
    totals=st.lists(st.integers(1, 120), min_size=2, max_size=8),
    stagger_s=st.floats(0, 0.5),
    row_s=st.floats(0.004, 0.012),
    geometry=presets,
)
def test_speakers_that_share_a_decoder_do_not_starve(
    totals: list[int], stagger_s: float, row_s: float, geometry: Geometry
) -> None:
    speakers = [Speaker(total, i * stagger_s) for i, total in enumerate(totals)]
    play(speakers, row_s, FAST, geometry)
    assert [speaker.sent for speaker in speakers] == totals
    assert max(speaker.gaps_s for speaker in speakers) < 0.1


def test_on_an_idle_machine_audio_begins_at_once_and_chunks_grow_to_steady() -> None:
    speaker = Speaker(100)
    play([speaker], 0.005, FAST, PRESETS["exact-fast"])
    assert speaker.first_s == pytest.approx((4 + 4 + DELAY) * 0.005 + FAST.predict(5.2), abs=0.005)
    assert speaker.sizes[:3] == [4, 9, 25]
