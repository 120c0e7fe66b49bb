"""The pipeline over fake stages: what an utterance tells its caller, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from talkwire_pipeline import events
from talkwire_pipeline.deploy import load
from talkwire_pipeline.errors import (
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    TimedOutError,
    UnavailableError,
)
from talkwire_pipeline.fakes import FakeStages
from talkwire_pipeline.generation import WAITED_NS
from talkwire_pipeline.messages import Abort, Credit, Message, Open, PutReference, StageName
from talkwire_pipeline.pipeline import Pipeline, Utterance, UtteranceRequest
from talkwire_pipeline.sampling import SamplingChoice

LONG = (
    "The birch canoe slid on the smooth planks. Glue the sheet to the dark blue background. "
    "These days a chicken leg is a rare dish. Rice is often served in round bowls. "
)
Make = Callable[..., Awaitable[tuple[Pipeline, FakeStages]]]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    """Makes pipelines: `await make("text.continuity=anchor", slots=1)`; each must be empty when it is closed."""
    async with AsyncExitStack() as stack:

        async def start(*overrides: str, **options: Any) -> tuple[Pipeline, FakeStages]:
            stages = FakeStages(**options)
            pipeline = Pipeline(load("demo", overrides=overrides, environment={}), stages)
            await stack.enter_async_context(pipeline)
            stack.push_async_callback(assert_empty, pipeline, stages)
            return pipeline, stages

        yield start


async def assert_empty(pipeline: Pipeline, stages: FakeStages) -> None:
    await until(lambda: stages.live == 0)
    await until(lambda: pipeline.busy == 0)
    assert (pipeline.live, pipeline.queued) == (0, 0)
    assert not stages.work_due


async def until(condition: Callable[[], bool]) -> None:
    """Lets the loop turn until the condition holds; the test's own limit ends a wait in vain."""
    while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
        await asyncio.sleep(0)


async def speak(utterance: Utterance, *pieces: str) -> list[events.Event]:
    for piece in pieces:
        utterance.push(piece)
    utterance.end()
    return [event async for event in utterance]


def kinds(got: list[events.Event]) -> list[str]:
    """Names of the events, each run of the same once."""
    names = [type(event).__name__ for event in got]
    return [name for index, name in enumerate(names) if index == 0 or names[index - 1] != name]


def audio(got: list[events.Event]) -> np.ndarray[Any, Any]:
    chunks = [event for event in got if isinstance(event, events.Audio)]
    position = 0
    for chunk in chunks:
        assert chunk.first_sample == position
        position += len(chunk.samples)
    whole = np.concatenate([chunk.samples for chunk in chunks])
    assert np.isfinite(whole).all()
    return whole


def timed(got: list[events.Event]) -> list[events.Span]:
    return [span for event in got if isinstance(event, events.Timing) for span in event.spans]


def ended(got: list[events.Event], kind: type[Any]) -> Any:
    """The end event: the last one, and the only one."""
    assert sum(isinstance(event, events.END_EVENTS) for event in got) == 1
    assert isinstance(got[-1], kind)
    return got[-1]


async def test_an_utterance_starts_speaks_and_finishes(make: Make) -> None:
    pipeline, _ = await make()
    got = await speak(pipeline.open(), "Hello there.")
    assert isinstance(got[0], events.Started)
    statistics = ended(got, events.Finished).statistics
    samples = audio(got)
    assert statistics.sample_count == len(samples) > 0
    assert statistics.character_count == len("Hello there.")
    assert statistics.segment_count == 1
    assert statistics.ttfa_s > 0


async def test_segments_follow_each_other_without_a_gap_and_timings_cover_text_and_audio(make: Make) -> None:
    pipeline, stages = await make()
    got = await speak(pipeline.open(), LONG)
    spans = [span for span in timed(got) if span.kind == "segment"]
    assert len(spans) == len(stages.sent(Open)) > 2
    assert "".join(LONG[span.text_start : span.text_end] for span in spans) == LONG
    assert spans[0].start_sample == 0
    assert all(one.end_sample == two.start_sample for one, two in pairwise(spans))
    assert spans[-1].end_sample == len(audio(got))
    words = [span for span in timed(got) if span.kind == "word"]
    assert [LONG[span.text_start : span.text_end] for span in words] == LONG.split()
    assert all(one.end_sample <= two.start_sample for one, two in pairwise(words))
    assert not any(span.exact for span in words)


async def test_audio_does_not_depend_on_how_the_text_came(make: Make) -> None:
    pipeline, _ = await make()
    request = UtteranceRequest(sampling=SamplingChoice(seed=5))
    whole = audio(await speak(pipeline.open(request), LONG))
    pieces = audio(await speak(pipeline.open(request), *LONG))
    np.testing.assert_array_equal(whole, pieces)


async def test_a_seed_fixes_the_audio_and_another_changes_it(make: Make) -> None:
    pipeline, _ = await make()

    async def once(seed: int | None) -> np.ndarray[Any, Any]:
        request = UtteranceRequest(sampling=SamplingChoice(seed=seed))
        return audio(await speak(pipeline.open(request), "Hello there."))

    assert np.array_equal(await once(1), await once(1))
    assert not np.array_equal(await once(1), await once(2))
    assert not np.array_equal(await once(None), await once(None))


async def test_flushed_follows_the_last_audio_of_the_text_before_it(make: Make) -> None:
    pipeline, _ = await make()
    utterance = pipeline.open()
    utterance.push("First part")
    utterance.flush()
    got = await speak(utterance, "Second part")
    flushed = next(event for event in got if isinstance(event, events.Flushed))
    before = got[: got.index(flushed)]
    assert flushed.end_sample == len(audio(before))
    spans = [span for span in timed(before) if span.kind == "segment"]
    assert spans[-1].text_end == len("First part")
    assert spans[-1].end_sample == flushed.end_sample


async def test_a_flush_of_nothing_is_answered_at_once(make: Make) -> None:
    pipeline, _ = await make()
    utterance = pipeline.open()
    utterance.flush()
    assert isinstance(utterance.take(), events.Started)
    assert utterance.take() == events.Flushed(0, 0)
    await utterance.abort()


@pytest.mark.parametrize("text", ["", "   \n", "...", "🙂🙂"])
async def test_an_utterance_with_nothing_to_speak_fails(make: Make, text: str) -> None:
    pipeline, _ = await make()
    got = await speak(pipeline.open(), text)
    assert isinstance(ended(got, events.Failed).error, InvalidArgumentError)


async def test_what_cannot_be_spoken_within_an_utterance_is_passed_over(make: Make) -> None:
    pipeline, _ = await make()
    utterance = pipeline.open()
    for piece in ("...", "Hello.", " 🙂 ", "World."):
        utterance.push(piece)
        utterance.flush()
    got = await speak(utterance)
    ended(got, events.Finished)
    assert sum(isinstance(event, events.Flushed) for event in got) == 4


async def test_refused_text_takes_nothing_and_the_utterance_lives_on(make: Make) -> None:
    pipeline, _ = await make("text.max_utterance_chars=20")
    utterance = pipeline.open()
    for text in ("nul\0", "\ud800", "x" * 21):
        with pytest.raises(InvalidArgumentError):
            utterance.push(text)
    got = await speak(utterance, "Hello.")
    assert ended(got, events.Finished).statistics.character_count == len("Hello.")


async def test_an_unknown_control_token_fails_the_utterance_and_names_the_nearest(make: Make) -> None:
    pipeline, _ = await make()
    got = await speak(pipeline.open(), "<|emotion:jo", "y2|> Hello.")
    assert "<|emotion:joy|>" in ended(got, events.Failed).error.message


async def test_the_cap_is_a_finish_reason(make: Make) -> None:
    pipeline, _ = await make(frames=lambda prompt: 10_000)
    got = await speak(pipeline.open(), "Hi.")
    assert ended(got, events.Finished).reason == "cap"


# ---- abort


async def test_abort_before_any_text(make: Make) -> None:
    pipeline, _ = await make()
    utterance = pipeline.open()
    aborted = await utterance.abort()
    assert aborted == events.Aborted("", "", 0)
    assert [type(utterance.take()) for _ in range(3)] == [events.Started, events.Aborted, type(None)]


async def test_abort_mutes_at_once_and_is_answered_when_both_stages_let_go(make: Make) -> None:
    pipeline, stages = await make()
    utterance = pipeline.open()
    utterance.push(LONG)
    await until(lambda: isinstance(utterance.take(), events.Audio))
    answer = utterance.abort()
    assert utterance.take() is None
    aborted = await answer
    assert {stage for stage, message in stages.received if isinstance(message, Abort)} == {"talker", "codec"}
    assert aborted.spoken_text + aborted.unspoken_text == LONG
    assert aborted.generated_samples > 0
    assert utterance.take() == aborted
    assert utterance.take() is None


async def test_abort_splits_the_text_at_what_was_played(make: Make) -> None:
    pipeline, _ = await make()
    utterance = pipeline.open()
    utterance.push(LONG)
    heard, span = 0, None
    while span is None or heard < span.end_sample:  # what was not made cannot have been played
        event = utterance.take()
        if isinstance(event, events.Timing) and span is None:
            span = event.spans[0]
        elif isinstance(event, events.Audio):
            heard += len(event.samples)
            utterance.credit(len(event.samples))
        await asyncio.sleep(0)
    aborted = await utterance.abort(played_samples=span.end_sample)
    assert aborted.spoken_text == LONG[: span.text_end]


async def test_nobody_has_played_more_than_was_taken(make: Make) -> None:
    pipeline, _ = await make()
    utterance = pipeline.open()
    utterance.push(LONG)
    await until(lambda: utterance._text.end_sample > 0)  # the first segment is made, and nothing of it was taken
    aborted = await utterance.abort(played_samples=10**18)
    assert (aborted.spoken_text, aborted.unspoken_text) == ("", LONG)


async def test_abort_twice_and_after_the_end_changes_nothing(make: Make) -> None:
    pipeline, _ = await make()
    utterance = pipeline.open()
    utterance.push("Hello.")
    first, second = utterance.abort(), utterance.abort(5)
    assert await first == await second
    finished = pipeline.open()
    got = await speak(finished, "Hello.")
    aborted = await finished.abort()
    assert aborted.spoken_text == "Hello."
    assert finished.take() is None
    ended(got, events.Finished)


async def test_text_after_abort_or_end_is_ignored(make: Make) -> None:
    pipeline, _ = await make()
    utterance = pipeline.open()
    utterance.abort()
    utterance.push("Hello.")
    utterance.flush()
    utterance.end()
    assert (await utterance.abort()).unspoken_text == ""


async def test_an_abort_is_answered_although_a_stage_says_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("talkwire_pipeline.utterance.RELEASE_TIMEOUT_S", 0.01)
    pipeline, stages = await make()
    utterance = pipeline.open()
    utterance.push(LONG)
    await until(lambda: stages.live == 1)
    stages.hold()
    send = stages.send
    stages.send = lambda stage, message: None  # type: ignore[method-assign]
    try:
        await utterance.abort()
    finally:
        stages.send = send  # type: ignore[method-assign]
    assert pipeline.busy == 1
    stages.release()
    stages.crash("talker")
    stages.recover("talker")


async def test_an_iterator_that_is_left_aborts(make: Make) -> None:
    pipeline, _ = await make()
    utterance = pipeline.open()
    utterance.push(LONG)
    iterator = aiter(utterance)
    await anext(iterator)
    await iterator.aclose()  # type: ignore[attr-defined]
    await utterance.abort()


# ---- limits


async def test_a_waiting_segment_is_opened_when_a_slot_comes_free(make: Make) -> None:
    pipeline, stages = await make("talker.max_num_seqs=1", slots=1)
    got = await asyncio.gather(*(speak(pipeline.open(), f"Number {index}.") for index in range(5)))
    for one in got:
        ended(one, events.Finished)
    assert not stages.held("talker")


async def test_a_full_house_is_refused(make: Make) -> None:
    pipeline, _ = await make("server.max_live_utterances=2")
    live = [pipeline.open(), pipeline.open()]
    with pytest.raises(ResourceExhaustedError, match="max_live_utterances"):
        pipeline.open()
    await asyncio.gather(*(utterance.abort() for utterance in live))
    await pipeline.open().abort()


async def test_a_full_queue_is_refused(make: Make) -> None:
    pipeline, stages = await make("talker.max_num_seqs=1", "server.max_queued_segments=1")
    stages.hold()
    live = [pipeline.open(), pipeline.open()]
    for utterance in live:
        utterance.push("Hello.")
        utterance.end()
    with pytest.raises(ResourceExhaustedError, match="max_queued_segments"):
        pipeline.open()
    await asyncio.gather(*(utterance.abort() for utterance in live))


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (UtteranceRequest(voice="nobody"), NotFoundError),
        (UtteranceRequest(sampling=SamplingChoice(top_p=2)), InvalidArgumentError),
    ],
)
async def test_requests_that_cannot_be_are_refused(make: Make, request_: UtteranceRequest, error: type) -> None:
    pipeline, _ = await make()
    with pytest.raises(error):
        pipeline.open(request_)


async def test_a_reader_that_takes_nothing_holds_back_codec_and_queue(make: Make) -> None:
    pipeline, stages = await make("server.max_buffered_audio_s=1")
    utterance = pipeline.open()
    utterance.push(LONG * 4)
    utterance.end()
    turns = 0
    while turns < 500:
        turns += 1
        await asyncio.sleep(0)
    held_back = len(stages.sent(Open))
    assert held_back <= 2
    got = [event async for event in utterance]
    assert len(stages.sent(Open)) > held_back
    assert stages.sent(Credit)
    ended(got, events.Finished)


@pytest.mark.parametrize("limit", ["timeout_s", "first_audio_timeout_s"])
async def test_a_deadline_ends_the_utterance(make: Make, limit: str) -> None:
    pipeline, stages = await make()
    stages.hold()
    utterance = pipeline.open(UtteranceRequest(**{limit: 0.01}))
    got = await speak(utterance, LONG)
    error = ended(got, events.Failed).error
    assert isinstance(error, TimedOutError)
    assert limit in error.message


async def test_first_audio_in_time_is_no_deadline(make: Make) -> None:
    pipeline, _ = await make()
    utterance = pipeline.open(UtteranceRequest(first_audio_timeout_s=30.0))
    ended(await speak(utterance, "Hello."), events.Finished)


async def test_the_idle_timer_cuts_what_has_paused(make: Make) -> None:
    pipeline, stages = await make("text.idle_flush_s=0.005")
    utterance = pipeline.open()
    utterance.push("It goes on, then pauses ")
    await until(lambda: bool(stages.sent(Open)))
    ended(await speak(utterance, "and ends."), events.Finished)
    assert len(stages.sent(Open)) == 2


async def test_an_utterance_that_is_long_enough_leaves_the_rest_unspoken(make: Make) -> None:
    pipeline, stages = await make("text.max_audio_s=4")
    utterance = pipeline.open()
    utterance.push(LONG)
    utterance.flush()
    got = await speak(utterance)
    assert ended(got, events.Finished).reason == "max_audio"
    assert len(audio(got)) == 4 * 24_000
    assert len(stages.sent(Open)) < 3
    assert sum(isinstance(event, events.Flushed) for event in got) == 1


async def test_a_pause_after_the_longest_audio_speaks_no_more(make: Make) -> None:
    pipeline, stages = await make("text.max_audio_s=4", "text.idle_flush_s=0.1")
    utterance, clock = pipeline.open(), asyncio.get_running_loop().time
    utterance.push(LONG + "An open end")
    later = clock() + 0.2
    await until(lambda: len(stages.sent(Open)) == 2 and stages.live == 0)
    await until(lambda: clock() > later)
    assert len(stages.sent(Open)) == 2
    ended([event async for event in utterance], events.Finished)


# ---- urgent and batch, deadlines


def a_batch(seed: int = 5) -> UtteranceRequest:
    return UtteranceRequest(priority=1, sampling=SamplingChoice(seed=seed))


async def test_batch_gives_way_at_once_and_sounds_the_same(make: Make) -> None:
    pipeline, stages = await make("talker.max_num_seqs=2", slots=2)
    alone = audio(await speak(pipeline.open(a_batch()), LONG))
    heard = [asyncio.ensure_future(speak(pipeline.open(a_batch()), LONG)) for _ in range(2)]
    await until(lambda: stages.held("talker") == 2 and len(stages.sent(Open)) > 5)
    before = len(stages.sent(Open))
    urgent = pipeline.open()
    urgent.push("Now! ")
    urgent.end()
    assert len(stages.sent(Open)) == before + 1, "it was opened with both slots taken"
    assert pipeline.preempted == 1
    ended([event async for event in urgent], events.Finished)
    for each in await asyncio.gather(*heard):
        assert np.array_equal(audio(each), alone)


async def test_a_batch_that_gives_way_again_and_again_sounds_the_same(make: Make) -> None:
    pipeline, _ = await make("talker.max_num_seqs=1", "server.max_buffered_audio_s=1", slots=1)
    alone = audio(await speak(pipeline.open(a_batch()), LONG))
    batch, got = pipeline.open(a_batch()), list[events.Event]()
    batch.push(LONG)
    batch.end()
    async for event in batch:
        got.append(event)
        if isinstance(event, events.Audio) and event.first_sample < 200_000:
            ended(await speak(pipeline.open(), "Now! "), events.Finished)
    assert np.array_equal(audio(got), alone)
    assert pipeline.preempted > 3


async def test_urgent_ones_do_not_give_way_to_each_other(make: Make) -> None:
    pipeline, stages = await make("talker.max_num_seqs=1", slots=1)
    stages.hold()
    first, second = pipeline.open(), pipeline.open()
    for each in (first, second):
        each.push("Hello. ")
        each.end()
    assert (pipeline.preempted, pipeline.queued) == (0, 1)
    stages.release()
    for each in (first, second):
        ended([event async for event in each], events.Finished)


async def test_a_batch_that_is_dropped_while_it_waits_again_leaves_nothing(make: Make) -> None:
    pipeline, stages = await make("talker.max_num_seqs=1", slots=1)
    batch = pipeline.open(a_batch())
    batch.push(LONG)
    await until(lambda: stages.held("talker") == 1)
    urgent = pipeline.open()
    urgent.push("Now! ")
    urgent.end()
    assert pipeline.preempted == 1
    assert isinstance(await batch.abort(), events.Aborted)
    ended([event async for event in urgent], events.Finished)


async def test_who_would_wait_too_long_is_refused_and_told_when_to_come_back(make: Make) -> None:
    pipeline, stages = await make("talker.max_num_seqs=1", "server.first_audio_timeout_s=3", slots=1)
    pipeline._hub.dispatcher.pace.held(2.0)
    pipeline._hub.dispatcher.pace.spoke(0.5)
    stages.hold()
    busy, waiting = pipeline.open(), pipeline.open()
    for each in (busy, waiting):
        each.push("Hello. ")
        each.end()
    with pytest.raises(ResourceExhaustedError, match=r"about 4.5 s, and first_audio_timeout_s leaves 3 s") as refused:
        pipeline.open()
    assert refused.value.reason == "QUEUE_FULL"
    assert refused.value.retry_after_s == pytest.approx(1.5)
    pipeline.open(UtteranceRequest(first_audio_timeout_s=5)).abort()
    pipeline.open(UtteranceRequest(priority=1)).abort()  # nobody listens to it
    stages.release()
    for each in (busy, waiting):
        ended([event async for event in each], events.Finished)


async def test_a_text_that_would_wait_too_long_is_refused_as_soon_as_it_is_there(make: Make) -> None:
    pipeline, stages = await make("talker.max_num_seqs=1", "server.first_audio_timeout_s=3", slots=1)
    early = pipeline.open()  # an idle language model: when it comes in there is room
    pipeline._hub.dispatcher.pace.held(4.0)
    stages.hold()
    busy = pipeline.open()
    busy.push("Hello. ")
    busy.end()
    early.push("Hello. ")
    failed = ended([event async for event in early], events.Failed)
    assert isinstance(failed.error, ResourceExhaustedError)
    assert failed.error.reason == "QUEUE_FULL"
    stages.release()
    ended([event async for event in busy], events.Finished)


async def test_a_slow_first_audio_of_old_does_not_keep_anybody_out_of_a_server_that_has_nothing_to_do(
    make: Make,
) -> None:
    pipeline, stages = await make("talker.max_num_seqs=2", "server.first_audio_timeout_s=3", slots=2)
    pipeline._hub.dispatcher.pace.spoke(60.0)
    stages.hold()
    first = pipeline.open()
    first.push("Hello. ")
    first.end()
    with pytest.raises(ResourceExhaustedError, match="first_audio_timeout_s"):
        pipeline.open()
    stages.release()
    ended([event async for event in first], events.Finished)
    await until(lambda: not pipeline._hub.dispatcher.held)
    second = pipeline.open()
    second.push("Hello. ")
    second.end()
    ended([event async for event in second], events.Finished)


async def test_what_can_no_longer_come_in_time_is_not_begun(make: Make) -> None:
    pipeline, stages = await make("talker.max_num_seqs=1", slots=1)
    stages.hold()
    busy = pipeline.open()
    busy.push("Hello. ")
    busy.end()
    late = pipeline.open(UtteranceRequest(first_audio_timeout_s=60))
    late.push("Hello. ")
    late.end()
    pipeline._hub.dispatcher.pace.first_s = 1000.0  # of late
    later = time.monotonic_ns() + WAITED_NS
    await until(lambda: time.monotonic_ns() > later)
    opened = len(stages.sent(Open))
    stages.release()
    failed = ended([event async for event in late], events.Failed)
    assert isinstance(failed.error, TimedOutError)
    assert "can no longer come within 60 s" in failed.error.message
    assert len(stages.sent(Open)) == opened
    ended([event async for event in busy], events.Finished)


async def test_a_reader_that_takes_nothing_for_too_long_fails_alone(make: Make) -> None:
    pipeline, _ = await make("server.slow_reader_timeout_s=0.02")
    stopped, lively = pipeline.open(), pipeline.open()
    for utterance in (stopped, lively):
        utterance.push(LONG)
        utterance.end()
    ended([event async for event in lively], events.Finished)
    await until(lambda: pipeline.live == 0)
    error = ended([event async for event in stopped], events.Failed).error
    assert (error.reason, type(error)) == ("SLOW_READER", ResourceExhaustedError)


# ---- the voice


@pytest.mark.parametrize(("continuity", "references"), [("anchor", 1), ("rolling", 2), ("off", 0)])
async def test_continuity(make: Make, continuity: str, references: int) -> None:
    pipeline, stages = await make(f"text.continuity={continuity!r}", frames=lambda prompt: 30)
    await speak(pipeline.open(), LONG)
    opened = stages.sent(Open)
    assert len(opened) >= 3
    assert opened[0].reference == 0
    used = {message.reference for message in opened[1:3]}
    assert len(used - {0}) == references
    assert len(stages.sent(PutReference)) >= references
    assert stages.references == frozenset()


async def test_a_stream_keeps_its_voice_over_utterances(make: Make) -> None:
    pipeline, stages = await make("text.continuity=anchor")
    voice = pipeline.stream_voice()
    for _ in range(3):
        await speak(pipeline.open(voice=voice), "The birch canoe slid on the smooth planks.")
    references = [message.reference for message in stages.sent(Open)]
    assert references[0] == 0
    assert len(set(references[1:])) == 1
    assert references[1] != 0
    voice.close()
    await until(lambda: stages.references == frozenset())


async def test_a_reference_that_the_talker_lost_is_sent_again(make: Make) -> None:
    pipeline, stages = await make("text.continuity=anchor")
    voice = pipeline.stream_voice()
    await speak(pipeline.open(voice=voice), "The birch canoe slid on the smooth planks.")
    await speak(pipeline.open(voice=voice), "Hello.")
    stages.forget_references()
    ended(await speak(pipeline.open(voice=voice), "Hello again."), events.Finished)
    assert len(stages.sent(PutReference)) == 2
    voice.close()


async def test_a_reference_that_the_talker_cannot_keep_fails_its_utterance(make: Make) -> None:
    pipeline, stages = await make("text.continuity=anchor")
    voice = pipeline.stream_voice()
    await speak(pipeline.open(voice=voice), "The birch canoe slid on the smooth planks.")
    send = stages.send

    def lossy(stage: StageName, message: Message) -> None:
        send(stage, message)
        stages.forget_references()

    stages.send = lossy  # type: ignore[method-assign]
    assert isinstance(ended(await speak(pipeline.open(voice=voice), "Hello."), events.Failed).error, InternalError)
    stages.send = send  # type: ignore[method-assign]
    voice.close()


async def test_a_refused_segment_that_was_dropped_meanwhile_is_not_opened_again(make: Make) -> None:
    pipeline, stages = await make("text.continuity=anchor")
    voice = pipeline.stream_voice()
    await speak(pipeline.open(voice=voice), "The birch canoe slid on the smooth planks.")
    utterance = pipeline.open(voice=voice)
    stages.forget_references()
    utterance.push("Hello.")
    utterance.end()
    await utterance.abort()
    assert len(stages.sent(Open)) == 2
    voice.close()


# ---- stages that fail


@pytest.mark.parametrize("stage", ["talker", "codec"])
async def test_a_generation_that_breaks_fails_its_utterance_alone(make: Make, stage: str) -> None:
    pipeline, stages = await make()
    stages.fail_next(stage)  # type: ignore[arg-type]
    broken, whole = await asyncio.gather(speak(pipeline.open(), LONG), speak(pipeline.open(), LONG))
    error = ended(broken, events.Failed).error
    assert isinstance(error, InternalError)
    assert "a test made it fail" not in error.message
    ended(whole, events.Finished)


@pytest.mark.parametrize("stage", ["talker", "codec"])
async def test_a_stage_that_dies_fails_what_is_spoken_and_its_return_is_welcome(make: Make, stage: str) -> None:
    pipeline, stages = await make()
    changes: list[bool] = []
    pipeline.on_ready_change = lambda: changes.append(pipeline.ready)
    idle, speaking = pipeline.open(), pipeline.open()
    speaking.push(LONG)
    await until(lambda: stages.live == 1)
    stages.crash(stage)  # type: ignore[arg-type]
    assert isinstance(ended([event async for event in speaking], events.Failed).error, UnavailableError)
    with pytest.raises(UnavailableError, match=stage):
        pipeline.open()
    stages.recover(stage)  # type: ignore[arg-type]
    assert changes[0] is False
    assert changes[-1] is True
    ended(await speak(idle, "Hello."), events.Finished)


async def test_text_for_a_stage_that_is_down_fails_its_utterance(make: Make) -> None:
    pipeline, stages = await make()
    utterance = pipeline.open()
    stages.crash("codec")
    assert isinstance(ended(await speak(utterance, "Hello."), events.Failed).error, UnavailableError)
    stages.recover("codec")


async def test_closing_the_pipeline_fails_what_is_live() -> None:
    async with Pipeline(load("demo", environment={}), FakeStages()) as pipeline:
        utterance = pipeline.open()
        utterance.push(LONG)
    assert isinstance(ended([event async for event in utterance], events.Failed).error, UnavailableError)
