"""The codec's loop: what goes in comes out whole and in order, whatever comes between, and nothing else does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.codecs import EchoDecoder, Samples, demo_decoder, tiny_decoder
from talkwire_pipeline.codec.decoder import CodecDecoder
from talkwire_pipeline.codec.loop import CodecLoop
from talkwire_pipeline.codec.windows import Shape
from talkwire_pipeline.delay import delay
from talkwire_pipeline.geometry import PRESETS, SAMPLES_PER_FRAME, Geometry
from talkwire_pipeline.messages import (
    Abort,
    Audio,
    Begin,
    CodecDone,
    Codes,
    Credit,
    End,
    EndReason,
    Failed,
    Message,
    Peer,
    Ping,
    Released,
    Rows,
    Stop,
)

PLENTY = 10**9


def random_frames(count: int, seed: int = 0) -> Codes:
    return np.random.default_rng(seed).integers(0, 1024, (count, 8)).astype(np.int16)


@dataclass
class Bench:
    """A loop with what it sent."""

    decoder: Any = field(default_factory=EchoDecoder)
    max_batch_frames: int = 48
    max_generations: int = 64
    out: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        clock = getattr(self.decoder, "clock", lambda: 0)
        self.loop = CodecLoop(self.decoder, self.out.append, clock, self.max_batch_frames, self.max_generations)

    def begin(self, generation: int, geometry: Geometry = PRESETS["exact"], **fields: int) -> None:
        known = {"credit_samples": PLENTY, "dry_ns": 0, "max_rows": 2000} | fields
        self.loop.handle(Begin(generation=generation, geometry=geometry, **known))

    def rows(self, rows: Codes, generation: int) -> None:
        """One message a row; the arrays are overwritten afterwards, as those of a ring are."""
        for row in rows:
            codes, ids = row[None].copy(), np.array([generation], np.uint64)
            self.loop.handle(Rows(generations=ids, codes=codes))
            codes[:], ids[:] = -7, 0

    def end(self, generation: int, reason: EndReason = "eos") -> None:
        self.loop.handle(End(generation=generation, reason=reason))

    def drain(self) -> None:
        while self.loop.step():
            pass

    def speak(self, generation: int, frames: Codes, geometry: Geometry = PRESETS["exact"]) -> None:
        self.begin(generation, geometry)
        self.rows(delay(frames), generation)
        self.end(generation)

    def audio(self, generation: int) -> list[Audio]:
        return [message for message in self.out if isinstance(message, Audio) and message.generation == generation]

    def samples(self, generation: int) -> Samples:
        """All samples; each chunk begins where the one before it ended."""
        chunks = self.audio(generation)
        at = 0
        for chunk in chunks:
            assert chunk.first_sample == at
            assert chunk.samples.dtype == np.float32
            at += len(chunk.samples)
        return np.concatenate([chunk.samples for chunk in chunks] or [np.zeros(0, np.float32)])


def echoed(frames: Codes) -> Samples:
    return np.repeat(frames[:, 0], SAMPLES_PER_FRAME).astype(np.float32)


# ---- streamed = whole


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    """Exact ones: the seams must not be heard, wherever they are."""
    ramp = draw(st.one_of(st.just("adaptive"), st.lists(st.integers(1, 12), max_size=4).map(tuple)))
    sizes = st.sampled_from([1, 2, 4, 9, 25])
    return Geometry(initial=draw(sizes), steady=draw(sizes), ramp=ramp)


def run_in_pieces(bench: Bench, utterances: dict[int, Codes], draw: Any, credit: int) -> None:
    """Feeds rows in random portions, steps at random, and takes audio as a reader does: some, or all there is."""
    left = {generation: delay(frames) for generation, frames in utterances.items()}
    taken = dict.fromkeys(utterances, 0)

    def take(generation: int) -> None:
        samples = sum(len(chunk.samples) for chunk in bench.audio(generation)) - taken[generation]
        taken[generation] += samples
        bench.loop.handle(Credit(generation=generation, samples=samples))

    while left:
        generation = draw(st.sampled_from(sorted(left)))
        count = draw(st.integers(1, 20))
        bench.rows(left[generation][:count], generation)
        left[generation] = left[generation][count:]
        if not len(left[generation]):
            del left[generation]
            bench.end(generation)
        for _ in range(draw(st.integers(0, 3))):
            bench.loop.step()
        if draw(st.booleans()):
            take(generation)
    bench.drain()
    while done(bench) < set(utterances):
        before = len(bench.out)
        for generation in utterances:
            take(generation)
        bench.drain()
        assert len(bench.out) > before, f"stuck with a credit of {credit} samples"


def done(bench: Bench) -> set[int]:
    return {message.generation for message in bench.out if isinstance(message, CodecDone)}


def check_whole(decoder: CodecDecoder, lengths: list[int], geometry: Geometry, data: Any, bound: int) -> None:
    credit = data.draw(st.sampled_from([960, 5000, 40_000, PLENTY]))
    bench = Bench(decoder, max_batch_frames=bound)
    utterances = {i + 1: random_frames(length, i) for i, length in enumerate(lengths)}
    for generation in utterances:
        bench.begin(generation, geometry, credit_samples=credit)
    run_in_pieces(bench, utterances, data.draw, credit)
    for generation, frames in utterances.items():
        streamed = bench.samples(generation)
        assert len(streamed) == len(frames) * SAMPLES_PER_FRAME
        np.testing.assert_allclose(streamed, decoder.decode_whole(frames), atol=1e-5)
        ends = [message for message in bench.out if isinstance(message, CodecDone)]
        assert CodecDone(generation=generation, samples=len(streamed), reason="eos") in ends


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.sampled_from([0, 1, 2, 5, 11, 28, 40]), min_size=1, max_size=3),
    geometry=geometries(),
    bound=st.sampled_from([1, 30, 48, 96]),
    data=st.data(),
)
def test_streamed_is_the_whole_decode_sample_for_sample(
    lengths: list[int], geometry: Geometry, bound: int, data: st.DataObject
) -> None:
    check_whole(tiny_decoder(), lengths, geometry, data, bound)


@settings(max_examples=4, deadline=None)
@given(length=st.integers(1, 60), geometry=geometries(), data=st.data())
def test_streamed_is_the_whole_decode_with_the_demo_voice(length: int, geometry: Geometry, data: st.DataObject) -> None:
    check_whole(demo_decoder(), [length], geometry, data, 48)


def test_exact_fast_differs_in_the_end_of_its_first_chunk_only() -> None:
    frames = random_frames(60)
    bench = Bench(demo_decoder())
    bench.begin(1, Geometry(preset="exact-fast", initial_holdback=4, ramp=(12, 6)))
    bench.rows(delay(frames), 1)
    bench.end(1)
    bench.drain()
    apart = np.abs(bench.samples(1) - demo_decoder().decode_whole(frames))
    unseen = slice((12 - 6) * SAMPLES_PER_FRAME, 12 * SAMPLES_PER_FRAME)
    assert 1e-5 < apart[unseen].max() < 0.1
    apart[unseen] = 0
    assert apart.max() < 1e-5


# ---- frames, ends


def test_rows_make_frames_seven_fewer_and_what_is_no_code_becomes_zero() -> None:
    frames = random_frames(30)
    rows = delay(frames)
    rows[12, 0] = 1024
    rows[13, 0] = -3
    rows[14, 0] = 1023
    frames[12:15, 0] = (0, 0, 1023)
    bench = Bench()
    bench.begin(1)
    bench.rows(rows, 1)
    bench.end(1, "cap")
    bench.drain()
    np.testing.assert_array_equal(bench.samples(1), echoed(frames))
    assert bench.out[-1] == CodecDone(generation=1, samples=30 * 960, reason="cap")


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_fewer_than_eight_rows_make_no_audio_and_a_clean_end(rows: int) -> None:
    bench = Bench()
    bench.begin(1)
    bench.rows(delay(random_frames(1))[:rows], 1)
    bench.end(1)
    assert bench.out == [CodecDone(generation=1, samples=0, reason="eos")]
    assert not bench.loop.step()
    assert bench.loop.stats()["live_generations"] == 0


def test_audio_starts_before_the_end_is_known() -> None:
    bench = Bench()
    bench.begin(1)
    bench.rows(delay(random_frames(40))[:20], 1)
    assert not bench.loop.step()
    bench.rows(delay(random_frames(40))[20:21], 1)
    assert bench.loop.step()
    assert [len(chunk.samples) for chunk in bench.audio(1)] == [4 * 960]
    assert not done(bench)


def test_one_message_carries_a_step_of_several_generations() -> None:
    bench = Bench()
    one, two = random_frames(20, 1), random_frames(20, 2)
    for generation in (1, 2):
        bench.begin(generation)
    for pair in zip(delay(one), delay(two), strict=True):
        bench.loop.handle(Rows(generations=np.array([1, 2], np.uint64), codes=np.stack(pair)))
    for generation in (1, 2):
        bench.end(generation)
    bench.drain()
    np.testing.assert_array_equal(bench.samples(1), echoed(one))
    np.testing.assert_array_equal(bench.samples(2), echoed(two))


# ---- order, bounds


def test_a_call_is_bounded_and_first_chunks_share_one() -> None:
    bench = Bench()
    bench.loop.warm_up(PRESETS["exact-fast"])
    bench.decoder.calls.clear()
    begun_ns = bench.decoder.now_ns
    for generation in range(1, 6):
        bench.speak(generation, random_frames(100, generation), PRESETS["exact-fast"])
    bench.drain()
    calls = bench.decoder.calls
    assert all(windows * shape.total <= 48 for windows, shape in calls)
    assert calls[0] == (4, Shape(0, 4, 4))
    stats = bench.loop.stats()
    assert stats["calls_total"] == len(calls) < stats["windows_total"]
    assert stats["frames_total"] == 500
    assert stats["call_seconds:sum"] == pytest.approx((bench.decoder.now_ns - begun_ns) / 1e9)


def test_a_window_larger_than_the_bound_still_goes() -> None:
    bench = Bench(max_batch_frames=1)
    bench.speak(1, random_frames(12))
    bench.drain()
    assert len(bench.samples(1)) == 12 * 960
    assert {windows for windows, _ in bench.decoder.calls} == {1}


def test_a_newcomer_goes_before_those_who_play_and_the_driest_of_them_comes_next() -> None:
    bench = Bench()
    now_ns = bench.decoder.now_ns
    for generation, dry_ns in ((1, now_ns + 900_000_000), (2, now_ns + 300_000_000), (3, 0)):
        bench.begin(generation, Geometry(initial=generation + 20, ramp=(generation + 20,)), dry_ns=dry_ns)
        bench.rows(delay(random_frames(90)), generation)
    for _ in range(3):
        assert bench.loop.step()
    assert [message.generation for message in bench.out] == [3, 2, 1]


def test_credit_bounds_what_is_decoded() -> None:
    bench = Bench()
    bench.begin(1, credit_samples=30 * 960 + 959)
    bench.rows(delay(random_frames(100)), 1)
    bench.end(1)
    bench.drain()
    assert len(bench.samples(1)) <= 30 * 960
    bench.loop.handle(Credit(generation=1, samples=len(bench.samples(1))))
    bench.drain()
    assert 30 * 960 < len(bench.samples(1)) <= 60 * 960 + 959


def test_a_reader_that_takes_little_at_a_time_does_not_cause_tiny_calls() -> None:
    bench = Bench()
    bench.begin(1, credit_samples=100 * 960)
    bench.rows(delay(random_frames(300)), 1)
    bench.end(1)
    bench.drain()
    before = len(bench.decoder.calls)
    for _ in range(100):
        bench.loop.handle(Credit(generation=1, samples=960))
        bench.drain()
    assert len(bench.decoder.calls) - before <= 5


# ---- abort, faults, the other stage


def test_an_abort_frees_at_once_and_says_what_was_decoded() -> None:
    bench = Bench()
    bench.speak(1, random_frames(100))
    bench.loop.step()
    sent = len(bench.samples(1))
    bench.loop.handle(Abort(generation=1))
    bench.drain()
    assert bench.out[-1] == Released(generation=1, samples=sent)
    bench.rows(random_frames(3), 1)
    bench.loop.handle(Credit(generation=1, samples=960))
    bench.end(1, "abort")
    bench.loop.handle(Abort(generation=1))
    bench.drain()
    assert bench.out[-2:] == [Released(generation=1, samples=sent), Released(generation=1, samples=0)]
    assert bench.loop.stats()["queued_frames"] == 0


def test_an_abort_that_overtakes_its_begin_leaves_nothing_behind() -> None:
    bench = Bench()
    bench.loop.handle(Abort(generation=2))
    bench.speak(1, random_frames(20, 1))
    bench.speak(2, random_frames(20, 2))
    bench.speak(3, random_frames(20, 3))
    bench.drain()
    assert not bench.audio(2)
    assert done(bench) == {1, 3}


def test_an_end_by_abort_says_nothing() -> None:
    bench = Bench()
    bench.begin(1)
    bench.rows(delay(random_frames(50)), 1)
    bench.end(1, "abort")
    bench.drain()
    assert bench.out == []


def test_the_talkers_death_frees_everything_and_silently() -> None:
    bench = Bench()
    bench.speak(1, random_frames(50))
    bench.loop.handle(Peer(stage="talker", up=True))
    assert bench.loop.stats()["live_generations"] == 1
    bench.loop.handle(Peer(stage="talker", up=False))
    bench.drain()
    assert bench.out == []
    assert bench.loop.stats()["live_generations"] == 0


def test_a_fault_of_the_decoder_fails_those_in_the_call_and_no_other() -> None:
    bench = Bench()
    bench.speak(1, random_frames(30, 1), Geometry(ramp=(5,)))
    bench.speak(2, random_frames(30, 2), Geometry(ramp=(6,)))
    bench.decoder.broken = True
    assert bench.loop.step()
    bench.decoder.broken = False
    bench.drain()
    assert bench.out[0] == Failed(generation=1, detail="RuntimeError: out of memory")
    assert not bench.audio(1)
    np.testing.assert_array_equal(bench.samples(2), echoed(random_frames(30, 2)))


def test_more_rows_than_announced_fail_the_generation() -> None:
    bench = Bench()
    bench.begin(1, max_rows=10)
    bench.rows(delay(random_frames(20)), 1)
    bench.end(1)
    assert [type(message) for message in bench.out] == [Failed]


def test_more_generations_than_slots_fail() -> None:
    bench = Bench(max_generations=1)
    bench.speak(1, random_frames(10))
    bench.speak(2, random_frames(10))
    bench.drain()
    assert Failed(generation=2, detail="all 1 slots are taken") in bench.out
    assert done(bench) == {1}


def test_stop_and_messages_of_others() -> None:
    bench = Bench()
    with pytest.raises(TypeError, match="the codec takes no Ping"):
        bench.loop.handle(Ping(nonce=1))
    assert not bench.loop.stopped
    bench.loop.handle(Stop())
    assert bench.loop.stopped


# ---- warm-up


def test_a_warm_up_sends_nothing_and_learns_what_calls_cost() -> None:
    bench = Bench()
    bench.loop.warm_up(PRESETS["exact"])
    assert bench.out == []
    assert len(bench.decoder.calls) < 32
    bench.speak(1, random_frames(40))
    bench.drain()
    assert bench.loop.stats()["call_load"] == pytest.approx(1)
