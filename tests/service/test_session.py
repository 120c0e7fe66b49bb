"""A session without gRPC around it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from talkwire.v1 import speech_pb2 as pb
from talkwire_pipeline.errors import InternalError
from talkwire_server.session import OUTBOX_LIMIT, Session
from talkwire_server.wire import Malformed, parser

TEXT = "Hello there, this is a test."


async def test_the_reader_waits_while_its_answers_are_not_taken(served: Any) -> None:
    read = 0
    nonsense = parser(pb.ConverseRequest, 1000)(b"\xff")
    assert isinstance(nonsense, Malformed)

    async def flood() -> AsyncIterator[Malformed]:
        nonlocal read
        while read < 10 * OUTBOX_LIMIT:
            read += 1
            yield nonsense
            await asyncio.sleep(0)

    session = Session(served.app.admission)
    reader = asyncio.create_task(session.read(flood()))
    for _ in range(20 * OUTBOX_LIMIT):
        await asyncio.sleep(0)
    assert read == OUTBOX_LIMIT
    answers = 0
    while await session.next() is not None:
        answers += 1
    assert answers == read == 10 * OUTBOX_LIMIT
    await reader
    session.close()


async def test_a_fault_of_ours_ends_one_utterance_with_an_id_that_is_in_the_log(
    served: Any, caplog: pytest.LogCaptureFixture
) -> None:
    session = Session(served.app.admission)
    for name in ("u", "v"):
        session.obey(pb.ConverseRequest(utterance_id=name, start=pb.Start()))
        assert (await session.next()).name == "started"
    live = next(iter(session._live.values()))

    def broken() -> None:
        raise ZeroDivisionError

    live.utterance.take = broken  # type: ignore[method-assign,assignment]
    session.wake()
    session.obey(pb.ConverseRequest(utterance_id="v", text=pb.TextIncrement(text=TEXT)))
    session.end_text()
    ends = {}
    while (outgoing := await session.next()) is not None:
        ends[outgoing.utterance_id] = outgoing
    assert ends["u"].name == "failed"
    assert isinstance(ends["u"].payload, InternalError)
    assert ends["v"].name == "finished"
    fault = next(record for record in caplog.records if record.levelname == "ERROR")
    assert fault.args is not None
    assert str(fault.args[0]) in ends["u"].payload.message  # type: ignore[index]
    session.close()
    session.close()
    assert not served.app.admission.streams


def obey(session: Session, **event: Any) -> None:
    session.obey(pb.ConverseRequest(utterance_id="u", **event))


async def test_started_comes_before_every_error_of_its_id(served: Any) -> None:
    session = Session(served.app.admission)
    obey(session, start=pb.Start())
    obey(session, text=pb.TextIncrement(text="\0"))
    obey(session, start=pb.Start())
    assert [(await session.next()).name for _ in range(3)] == ["started", "error", "error"]
    session.close()


async def test_a_drain_does_not_take_the_place_of_an_end_event_that_waits(served: Any) -> None:
    session = Session(served.app.admission)
    obey(session, start=pb.Start())
    obey(session, abort=pb.Abort())
    assert (await session.next()).name == "started"
    await served.app.admission.empty()
    served.app.admission.fail_all(InternalError("the server leaves"))
    assert (await session.next()).name == "aborted"
    session.close()
