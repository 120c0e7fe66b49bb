"""What is kept to speak an utterance again, and what waits to be written."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from talkwire.outbox import LIMIT_REQUESTS, Outbox
from talkwire.replay import Replay
from talkwire.v1 import speech_pb2 as pb

EVENTS = {"started": pb.Started(seed=9), "timing": pb.Timing(), "flushed": pb.Flushed()}


def text(piece: str) -> pb.ConverseRequest:
    return pb.ConverseRequest(utterance_id="u", text=pb.TextIncrement(text=piece))


START = pb.ConverseRequest(utterance_id="u", start=pb.Start(voice="v"))


@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=8), st.integers(0, 8))
def test_events_are_heard_once_however_often_they_come(names: list[str], lost_after: int) -> None:
    replay, heard = Replay(), []
    replay.record(START)
    for name in names[:lost_after]:
        heard += [name] if replay.is_new(EVENTS[name]) else []
    assert replay.take() is not None
    for name in names:
        heard += [name] if replay.is_new(EVENTS[name]) else []
    assert sorted(heard) == sorted(names)


def test_requests_are_kept_until_the_first_audio() -> None:
    replay = Replay()
    replay.record(START)
    replay.record(text("a"))
    replay.is_new(EVENTS["started"])
    replay.is_new(pb.Audio())
    replay.record(text("b"))
    assert replay.take() is None


def test_they_are_given_once_and_not_after_an_abort() -> None:
    replay = Replay()
    replay.record(START)
    assert replay.take() == [START]
    replay.record(text("a"))
    assert replay.take() is None
    dropped = Replay()
    dropped.record(START)
    dropped.record(pb.ConverseRequest(utterance_id="u", abort=pb.Abort()))
    dropped.record(text("a"))
    assert dropped.take() is None


async def test_an_outbox_makes_senders_wait_and_lets_them_go() -> None:
    outbox = Outbox()
    for number in range(LIMIT_REQUESTS):
        await outbox.room()
        outbox.put(text(str(number)))
    waiting = [asyncio.create_task(outbox.room()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    assert (await outbox.take()) == text("0")
    await asyncio.gather(*waiting)
    outbox.put(None)
    outbox.clear([text("x")])
    assert await outbox.take() == text("x")
    taking = asyncio.create_task(outbox.take())
    await asyncio.sleep(0)
    outbox.put(None)
    assert await taking is None
