from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import numpy as np
import pytest

from support.heard import Heard
from talkwire_pipeline.errors import UnavailableError
from talkwire_pipeline.fakes import FakeStages, FakeVoice
from talkwire_pipeline.geometry import PRESETS, SAMPLES_PER_FRAME
from talkwire_pipeline.messages import (
    Abort,
    Audio,
    CodecDone,
    Credit,
    DropReference,
    Failed,
    Open,
    PutReference,
    Refused,
    Released,
    StageName,
    TalkerDone,
)
from talkwire_pipeline.sampling import Sampling

PROMPT = np.arange(20, dtype=np.int32)


def an_open(generation: int = 1, **changes: Any) -> Open:
    base = Open(
        generation=generation,
        prompt=PROMPT,
        sampling=Sampling(seed=7),
        max_rows=1000,
        geometry=PRESETS["exact"],
        credit_samples=10**9,
    )
    return msgspec.structs.replace(base, **changes)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
async def stages(heard: Heard) -> AsyncIterator[FakeStages]:
    fake = FakeStages()
    await fake.start(heard.on_message, heard.on_state)
    yield fake
    await fake.close()


async def settle(turns: int = 100) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_a_generation_speaks_to_its_end(stages: FakeStages, heard: Heard) -> None:
    stages.send("talker", an_open())
    await settle()
    voice = FakeVoice.of(PROMPT, 7)
    np.testing.assert_array_equal(heard.audio(), voice.samples(0, 40 * SAMPLES_PER_FRAME))
    (done,) = heard.of(TalkerDone)
    assert (done.reason, done.rows) == ("eos", 47)
    np.testing.assert_array_equal(done.codes, voice.codes(40))
    assert heard.messages[-1] == ("codec", CodecDone(generation=1, samples=40 * SAMPLES_PER_FRAME, reason="eos"))
    assert [len(each.samples) // SAMPLES_PER_FRAME for each in heard.of(Audio)] == [4, 25, 11]
    assert stages.live == 0


async def test_the_seed_changes_the_voice_and_the_same_seed_keeps_it(stages: FakeStages, heard: Heard) -> None:
    stages.send("talker", an_open(1))
    stages.send("talker", an_open(2))
    stages.send("talker", an_open(3, sampling=Sampling(seed=8)))
    await settle()
    np.testing.assert_array_equal(heard.audio(1), heard.audio(2))
    assert not np.array_equal(heard.audio(1), heard.audio(3))


@pytest.mark.parametrize(("max_rows", "samples"), [(20, 13 * SAMPLES_PER_FRAME), (7, 0)])
async def test_the_cap_cuts(stages: FakeStages, heard: Heard, max_rows: int, samples: int) -> None:
    stages.send("talker", an_open(max_rows=max_rows))
    await settle()
    assert (heard.of(TalkerDone)[0].reason, heard.of(TalkerDone)[0].rows) == ("cap", max_rows)
    assert heard.of(CodecDone) == [CodecDone(generation=1, samples=samples, reason="cap")]
    assert len(heard.audio()) == samples


async def test_without_credit_the_codec_waits(stages: FakeStages, heard: Heard) -> None:
    stages.send("talker", an_open(credit_samples=SAMPLES_PER_FRAME))
    await settle()
    assert len(heard.audio()) == 4 * SAMPLES_PER_FRAME
    assert len(heard.of(TalkerDone)) == 1
    assert not heard.of(CodecDone)
    stages.send("codec", Credit(generation=1, samples=40 * SAMPLES_PER_FRAME))
    await settle()
    assert len(heard.audio()) == 40 * SAMPLES_PER_FRAME


@pytest.mark.parametrize("first", ["talker", "codec"])
async def test_abort_is_answered_by_both_and_nothing_follows(
    stages: FakeStages, heard: Heard, first: StageName
) -> None:
    stages.send("talker", an_open(credit_samples=1, prompt=np.zeros(1000, np.int32)))
    await settle(4)
    said = len(heard.audio())
    assert stages.held("talker") == stages.held("codec") == 1
    for stage in (first, "codec" if first == "talker" else "talker"):
        stages.send(stage, Abort(generation=1))
    await settle()
    # The talker tells the codec: an abort that comes there later finds nothing.
    samples = 0 if first == "talker" else said
    assert {("talker", Released(generation=1)), ("codec", Released(generation=1, samples=samples))} == set(
        heard.messages[-2:]
    )
    assert (stages.live, len(heard.audio())) == (0, said)


async def test_abort_of_what_the_talker_has_done_is_the_codecs(stages: FakeStages, heard: Heard) -> None:
    stages.send("talker", an_open(credit_samples=1))
    await settle()
    stages.send("talker", Abort(generation=1))
    assert stages.held("codec") == 1
    stages.send("codec", Abort(generation=1))
    await settle()
    assert heard.messages[-1] == ("codec", Released(generation=1, samples=4 * SAMPLES_PER_FRAME))
    assert stages.live == 0


async def test_abort_of_an_unknown_generation_is_answered(stages: FakeStages, heard: Heard) -> None:
    stages.send("codec", Abort(generation=9))
    await settle()
    assert heard.messages == [("codec", Released(generation=9))]


async def test_a_full_talker_refuses(heard: Heard) -> None:
    stages = FakeStages(slots=1)
    await stages.start(heard.on_message, heard.on_state)
    stages.hold()
    stages.send("talker", an_open(1))
    stages.send("talker", an_open(2))
    await settle()
    assert heard.messages == [("talker", Refused(generation=2, reason="full"))]
    await stages.close()


async def test_a_prompt_that_does_not_fit_is_refused(stages: FakeStages, heard: Heard) -> None:
    stages.send("talker", an_open(max_rows=2040))
    await settle()
    assert heard.messages == [("talker", Refused(generation=1, reason="length"))]


async def test_references_are_known_between_put_and_drop(stages: FakeStages, heard: Heard) -> None:
    codes = np.zeros((30, 8), np.int16)
    stages.send("talker", an_open(1, reference=5))
    stages.send("talker", PutReference(reference=5, codes=codes))
    stages.send("talker", an_open(2, reference=5))
    await settle()
    assert heard.of(Refused) == [Refused(generation=1, reason="reference")]
    assert [each.generation for each in heard.of(TalkerDone)] == [2]
    stages.send("talker", DropReference(reference=5))
    assert stages.references == frozenset()


async def test_hold_stops_progress_until_release(stages: FakeStages, heard: Heard) -> None:
    stages.hold()
    stages.send("talker", an_open())
    await settle()
    assert heard.messages == []
    stages.release()
    await settle()
    assert len(heard.of(CodecDone)) == 1


@pytest.mark.parametrize("stage", ["talker", "codec"])
async def test_a_failure_of_one_generation_leaves_the_next_alone(
    stages: FakeStages, heard: Heard, stage: StageName
) -> None:
    stages.fail_next(stage)
    stages.send("talker", an_open(1))
    stages.send("talker", an_open(2))
    await settle()
    assert [(at, each.generation) for at, each in heard.messages if isinstance(each, Failed)] == [(stage, 1)]
    assert [each.generation for each in heard.of(CodecDone)] == [2]
    assert heard.audio(1).size == 4 * SAMPLES_PER_FRAME


@pytest.mark.parametrize("stage", ["talker", "codec"])
async def test_a_crash_takes_all_down_until_recovery(stages: FakeStages, heard: Heard, stage: StageName) -> None:
    stages.send("talker", an_open(1))
    stages.crash(stage, "out of memory")
    stages.send(stage, Abort(generation=1))
    await settle()
    assert [each for at, each in heard.messages if at == stage] == []
    assert (stages.state(stage), stages.fault(stage), stages.live) == ("down", "out of memory", 0)
    stages.recover(stage)
    stages.send("talker", an_open(2))
    await settle()
    assert [each.generation for each in heard.of(CodecDone)] == [2]
    assert heard.states[-3:] == [(stage, "down"), (stage, "starting"), (stage, "ready")]


async def test_a_failed_start_raises(heard: Heard) -> None:
    stages = FakeStages(start_error=UnavailableError("no memory"))
    with pytest.raises(UnavailableError, match="no memory"):
        await stages.start(heard.on_message, heard.on_state)


async def test_arrays_end_with_the_call(stages: FakeStages) -> None:
    kept: list[Audio] = []
    await stages.start(lambda _, message: kept.append(message) if isinstance(message, Audio) else None, lambda *_: None)
    stages.send("talker", an_open())
    await settle()
    assert kept
    assert all(np.isnan(each.samples).all() for each in kept)


async def test_a_pace_spaces_the_chunks(heard: Heard) -> None:
    stages = FakeStages(pace_s=1e6)
    await stages.start(heard.on_message, heard.on_state)
    stages.send("talker", an_open())
    await settle()
    assert heard.messages == []
    await stages.close()
