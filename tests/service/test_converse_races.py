"""Events that cross: nobody waits for an answer, stages speak, break and die meanwhile. Held to the contract."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.contract import Contract
from talkwire.v1 import speech_pb2 as pb
from talkwire_pipeline.errors import TalkwireError, UnavailableError
from talkwire_pipeline.fakes import FakeStages
from talkwire_server.session import Session

REFUSED = pb.Start(sampling=pb.Sampling(top_p=2))
EVENTS: dict[str, dict[str, Any]] = {
    "start": {"start": pb.Start()},
    "start_refused": {"start": REFUSED},
    "text": {"text": pb.TextIncrement(text="Hello there, and more. ")},
    "word": {"text": pb.TextIncrement(text="a word ")},
    "unread": {"text": pb.TextIncrement(text="\u4f60\u597d. ")},
    "NUL": {"text": pb.TextIncrement(text="\0")},
    "no_token": {"text": pb.TextIncrement(text="<|emotion:envyy|>")},
    "flush": {"flush": pb.Flush()},
    "end": {"end": pb.End()},
    "abort": {"abort": pb.Abort(played_samples=30_000)},
}
IDS = st.sampled_from("aab")
OFTEN = st.sampled_from(["start", "text", "text", "word", "flush", "end", "abort"])
SENDING = st.one_of(
    st.tuples(OFTEN, IDS), st.tuples(OFTEN, IDS), st.tuples(OFTEN, IDS), st.tuples(st.sampled_from(sorted(EVENTS)), IDS)
)
TURNS = st.tuples(st.just("turns"), st.integers(1, 6))
STAGE = st.sampled_from(["talker", "codec"])
MISHAPS = st.one_of(
    st.tuples(st.just("unary_abort"), IDS),
    st.tuples(st.just("fail_next"), STAGE),
    st.tuples(st.just("crash"), STAGE),
    st.tuples(st.sampled_from(["hold", "release", "drain"]), st.just("")),
)
TAKES = st.tuples(st.just("take"), st.integers(1, 4))
FIXTURE = [HealthCheck.function_scoped_fixture]


def sent(contract: Contract, name: str, utterance_id: str) -> pb.ConverseRequest:
    """The event, after the contract was told of it."""
    request = pb.ConverseRequest(utterance_id=utterance_id, **EVENTS[name])
    kind = str(request.WhichOneof("event"))
    taken = kind != "text" or name in ("text", "word", "unread")
    contract.send(utterance_id, kind if taken else "bad text", request.text.text)
    return request


class Crossing:
    """One session without gRPC: its writer takes when it is told to, so that what was read before is known."""

    def __init__(self, served: Any) -> None:
        self.served = served
        self.admission = served.app.admission
        self.session = Session(self.admission)
        self.contract = Contract()

    async def do(self, name: str, argument: Any) -> None:
        if name in EVENTS:
            self.session.obey(sent(self.contract, name, argument))
            if name == "abort":
                self.contract.mute(argument)
        else:
            await getattr(self, name)(argument)

    async def turns(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    async def take(self, count: int) -> None:
        for _ in range(count):
            if (outgoing := self.session._take()) is not None:
                self.hear(outgoing)

    async def unary_abort(self, utterance_id: str) -> None:
        if live := self.session._live.get(utterance_id):
            self.admission.abort(live.utterance)
            self.contract.mute(utterance_id)

    async def fail_next(self, stage: str) -> None:
        self.served.stages.fail_next(stage)

    async def crash(self, stage: str) -> None:
        self.served.stages.crash(stage)
        await asyncio.sleep(0)
        self.served.stages.recover(stage)

    async def hold(self, _: str) -> None:
        self.served.stages.hold()

    async def release(self, _: str) -> None:
        self.served.stages.release()

    async def drain(self, _: str) -> None:
        self.admission.fail_all(UnavailableError("a test drains"))

    def hear(self, outgoing: Any) -> None:
        payload = outgoing.payload
        reason = payload.reason if isinstance(payload, TalkwireError) else ""
        self.contract.hear(outgoing.utterance_id, outgoing.name, payload, reason)
        outgoing.taken()

    async def finish(self) -> None:
        """Half-closes, and takes all that is left."""
        self.served.stages.release()
        self.session.end_text()
        while (outgoing := await self.session.next()) is not None:
            self.hear(outgoing)
        self.contract.over()


def held(served: Any) -> list[int]:
    """What is there of anybody: streams, live utterances, segments that wait, slots, places, generations."""
    pipeline = served.app.pipeline
    streams, places = len(served.app.admission.streams), pipeline._hub.dispatcher.held
    return [streams, pipeline.live, pipeline.queued, pipeline.busy, places, served.stages.live]


async def empty(served: Any) -> None:
    """Waits until nothing is left; the test's own limit ends a wait in vain."""
    served.stages.release()
    served.stages._failures.clear()
    await served.until(lambda: not any(held(served)))
    await served.idle()
    served.stages.received.clear()


@pytest.fixture
async def narrow(serve: Callable[..., Awaitable[Any]]) -> Any:
    """A server with one slot: all others wait."""
    return await serve("talker.max_num_seqs=1", "codec.max_num_seqs=1", stages=FakeStages(slots=1))


@settings(max_examples=400, deadline=None, suppress_health_check=FIXTURE)
@given(actions=st.lists(st.one_of(SENDING, SENDING, SENDING, TURNS, TAKES, MISHAPS), min_size=5, max_size=40))
async def test_whatever_crosses_in_a_session_the_contract_holds(narrow: Any, actions: list[Any]) -> None:
    crossing = Crossing(narrow)
    try:
        for action in (("start", "a"), *actions):
            await crossing.do(*action)
        await crossing.finish()
    finally:
        crossing.session.close()
        await empty(narrow)


def reason_of(status: status_pb2.Status) -> str:
    info = error_details_pb2.ErrorInfo()
    assert any(each.Unpack(info) for each in status.details)
    return info.reason


async def listen(caller: Any, contract: Contract) -> None:
    while (response := await caller.receive()) is not None:
        name = str(response.WhichOneof("event"))
        payload = getattr(response, name)
        reason = reason_of(payload) if name == "error" else ""
        contract.hear(response.utterance_id, name, payload, reason)
    contract.over()
    assert await caller.call.code() is grpc.StatusCode.OK


@settings(max_examples=120, deadline=None, suppress_health_check=FIXTURE)
@given(actions=st.lists(st.one_of(SENDING, SENDING, SENDING, TURNS), min_size=5, max_size=40))
async def test_whatever_crosses_on_the_wire_the_contract_holds(served: Any, actions: list[Any]) -> None:
    caller, contract = served.converse(), Contract()
    listening = asyncio.create_task(listen(caller, contract))
    try:
        for name, argument in (("start", "a"), *actions):
            if name == "turns":
                await asyncio.sleep(0)
            else:
                await caller.call.write(sent(contract, name, argument))
        await caller.call.done_writing()
        await listening
    finally:
        caller.call.cancel()
        listening.cancel()
        await empty(served)


@settings(max_examples=40, deadline=None, suppress_health_check=FIXTURE)
@given(actions=st.lists(st.one_of(SENDING, SENDING, TURNS), min_size=3, max_size=20), turns=st.integers(0, 8))
async def test_a_caller_who_leaves_at_any_moment_leaves_nothing(served: Any, actions: list[Any], turns: int) -> None:
    caller, contract = served.converse(), Contract()
    for name, argument in (("start", "a"), *actions):
        if name != "turns":
            await caller.call.write(sent(contract, name, argument))
    for _ in range(turns):
        await asyncio.sleep(0)
    caller.call.cancel()
    await empty(served)
