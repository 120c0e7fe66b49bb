"""Any order of events on a stream against a model of the contract (docs/converse.md), over a real socket.

The stages are held while events are sent, so that the model knows what is due; now and then they are let go.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from talkwire.v1 import speech_pb2 as pb

ANSWER_S = 10.0
"""An answer that is due and has not come by then will not come."""
OK_TEXTS = ("Hello there. ", "and more, ", "a word")
BLANK = " \n"
NO_TOKEN = "<|emotion:envyy|>"
NO_PROTOBUF = b"\xff\xff\xff"
IDS = st.sampled_from("aaab")
WORDS = st.tuples(st.just("text"), IDS, st.sampled_from(OK_TEXTS))
STEPS = (
    st.tuples(st.just("start"), IDS),
    WORDS,
    WORDS,
    *(st.tuples(st.just(name), IDS) for name in ("flush", "end", "abort")),
    st.tuples(st.just("release"), st.just("")),
)
FAULTS = (
    st.tuples(st.just("start_refused"), IDS),
    st.tuples(st.just("text"), IDS, st.sampled_from([BLANK, "", "NUL \0", NO_TOKEN])),
    *(st.tuples(st.just(name), IDS) for name in ("unary_abort", "nothing")),
    *(st.tuples(st.just(name), st.just("")) for name in ("keepalive", "malformed")),
)
ACTIONS = st.one_of(*STEPS, *STEPS, *FAULTS)
ENDS = ("finished", "aborted", "failed")
BAD, THERE, MISSING, STATE = (
    code.value[0]
    for code in (
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
    )
)


@dataclass
class Life:
    """One utterance as the contract sees it."""

    text: str = ""
    text_over: bool = False
    flushes: int = 0
    flushed: int = 0
    server_id: str = ""
    samples: int = 0
    pieces: int = 0
    timed_to: int = 0
    unflushed: bool = False
    flushing: bool = False
    broken: bool = False

    @property
    def speaks(self) -> bool:
        return any(letter.isalpha() for letter in self.text)

    @property
    def natural_end(self) -> tuple[str, int]:
        """The end event that comes after the end of the text, and its code."""
        return ("finished", 0) if self.speaks else ("failed", BAD)

    @property
    def waits(self) -> bool:
        """Whether text of it is not spoken before the stages are let go."""
        return self.unflushed or self.flushing


@dataclass
class Machine:
    """What was sent and what must come of it."""

    served: Any
    caller: Any
    live: dict[str, Life] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    due: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """Answers that must come: (id, event, status code or 0)."""

    async def do(self, name: str, utterance_id: str, *arguments: str) -> None:
        await getattr(self, f"do_{name}")(utterance_id, *arguments)
        await self.settle()
        assert self.served.stages.live <= sum(life.speaks for life in self.live.values())

    # ---- events

    async def do_start(self, utterance_id: str) -> None:
        await self.caller.send(utterance_id, start=pb.Start())
        if utterance_id in self.live:
            self.due[utterance_id, "error", THERE] += 1
        else:
            self.live[utterance_id] = Life()
            self.due[utterance_id, "started", 0] += 1

    async def do_start_refused(self, utterance_id: str) -> None:
        await self.caller.send(utterance_id, start=pb.Start(sampling=pb.Sampling(top_p=2)))
        if utterance_id in self.live:
            self.due[utterance_id, "error", THERE] += 1
        else:
            self.due[utterance_id, "failed", BAD] += 1

    async def do_text(self, utterance_id: str, text: str) -> None:
        await self.caller.send(utterance_id, text=text)
        life = self._expects(utterance_id)
        if life is None:
            return
        if "\0" in text:
            self.due[utterance_id, "error", BAD] += 1
        elif life.text_over:
            self.due[utterance_id, "error", STATE] += 1
        elif text == NO_TOKEN:
            life.broken = True
            self.due[utterance_id, "failed", BAD] += 1
        else:
            life.text += text
            life.unflushed |= bool(text.strip())

    async def do_flush(self, utterance_id: str) -> None:
        await self.caller.send(utterance_id, flush=pb.Flush())
        life = self._expects(utterance_id)
        if life and life.text_over:
            self.due[utterance_id, "error", STATE] += 1
        elif life:
            life.flushes += 1
            life.flushing, life.unflushed = life.waits, False
            if not life.flushing:
                self.due[utterance_id, "flushed", 0] += 1

    async def do_end(self, utterance_id: str) -> None:
        await self.caller.send(utterance_id, end=pb.End())
        if (life := self._expects(utterance_id)) and not life.text_over:
            life.text_over = True
            if not life.waits:
                self.due[utterance_id, *life.natural_end] += 1

    async def do_abort(self, utterance_id: str) -> None:
        await self.caller.send(utterance_id, abort=pb.Abort(played_samples=1))
        if utterance_id in self.live:
            self.due[utterance_id, "aborted", 0] += 1
        elif utterance_id not in self.known:
            self.due[utterance_id, "error", MISSING] += 1

    async def do_unary_abort(self, utterance_id: str) -> None:
        await self.do_nothing(utterance_id)  # another RPC may overtake what the stream has not obeyed yet
        await self.settle()
        life = self.live.get(utterance_id)
        answer = await self.served.stub.Abort(pb.AbortRequest(server_id=life.server_id if life else "nobody"))
        assert answer.found == (life is not None)
        if life:
            self.due[utterance_id, "aborted", 0] += 1

    async def do_nothing(self, utterance_id: str) -> None:
        await self.caller.send(utterance_id)
        self.due[utterance_id, "error", BAD] += 1

    async def do_keepalive(self, _: str) -> None:
        await self.caller.send(keepalive=pb.Keepalive())

    async def do_malformed(self, _: str) -> None:
        await self.caller.call.write(NO_PROTOBUF)
        self.due["", "error", BAD] += 1

    async def do_release(self, _: str) -> None:
        for utterance_id, life in self.live.items():
            self.due[utterance_id, "flushed", 0] += life.flushes - life.flushed
            self.due[utterance_id, "finished", 0] += life.text_over
            life.flushing = False
        self.served.stages.release()
        await self.settle()
        self.served.stages.hold()

    def _expects(self, utterance_id: str) -> Life | None:
        """The live utterance; without one an error is due."""
        if utterance_id not in self.live:
            self.due[utterance_id, "error", STATE if utterance_id in self.known else MISSING] += 1
        return self.live.get(utterance_id)

    # ---- answers

    async def settle(self) -> None:
        """Reads until everything that is due has come."""
        try:
            async with asyncio.timeout(ANSWER_S):
                while +self.due:
                    response = await self.caller.receive()
                    assert response is not None, f"the stream ended, and {+self.due} is due"
                    self.hear(response)
        except TimeoutError:
            raise AssertionError(f"{+self.due} is due and does not come") from None

    def hear(self, response: pb.ConverseResponse) -> None:
        name, utterance_id = str(response.WhichOneof("event")), response.utterance_id
        event = getattr(response, name)
        code = event.code if name in ("error", "failed") else 0
        if self.due[utterance_id, name, code]:
            self.due[utterance_id, name, code] -= 1
        else:
            assert name in ("audio", "timing"), f"{name} of {utterance_id!r} was not due: {response}"
        if name == "error" or (name == "failed" and utterance_id not in self.live):
            self.known |= {utterance_id} if name == "failed" else set()
            return
        life = self.live[utterance_id]
        getattr(self, f"hear_{name}")(life, event)
        if name in ENDS:
            del self.live[utterance_id]
            self.known.add(utterance_id)

    def hear_started(self, life: Life, event: pb.Started) -> None:
        assert not life.server_id
        life.server_id = event.server_id

    def hear_audio(self, life: Life, event: pb.Audio) -> None:
        assert (event.first_sample, event.sequence) == (life.samples, life.pieces)
        life.samples += len(event.data) // 2
        life.pieces += 1

    def hear_timing(self, life: Life, event: pb.Timing) -> None:
        for span in event.spans:
            assert 0 <= span.text_start <= span.text_end <= len(life.text)
            if span.kind == pb.SPAN_KIND_SEGMENT:
                assert span.start_sample >= life.timed_to
                life.timed_to = span.end_sample

    def hear_flushed(self, life: Life, event: pb.Flushed) -> None:
        life.flushed += 1
        assert life.flushed <= life.flushes
        assert event.end_sample == life.samples

    def hear_finished(self, life: Life, event: pb.Finished) -> None:
        assert life.text_over
        assert life.flushed == life.flushes
        assert event.statistics.sample_count == life.samples
        assert life.samples

    def hear_failed(self, life: Life, event: Any) -> None:
        assert life.broken or (life.text_over and not life.speaks)

    def hear_aborted(self, life: Life, event: pb.Aborted) -> None:
        assert event.spoken_text + event.unspoken_text == life.text
        assert event.generated_samples >= life.samples

    async def close(self) -> None:
        """Half-closes: whatever lives finishes, and the stream ends well."""
        await self.caller.call.done_writing()
        for life in self.live.values():
            life.text_over = True
        for utterance_id, life in self.live.items():
            self.due[utterance_id, *life.natural_end] += 1
            self.due[utterance_id, "flushed", 0] += life.flushes - life.flushed
        self.served.stages.release()
        await self.settle()
        assert await self.caller.receive() is None
        assert await self.caller.call.code() is grpc.StatusCode.OK


@pytest.fixture
async def quiet(serve: Callable[..., Awaitable[Any]]) -> Any:
    """A server that speaks no text because of a pause."""
    return await serve("text.idle_flush_s=0")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(ACTIONS, min_size=10, max_size=30))
async def test_every_order_of_events_is_answered_as_the_contract_has_it(quiet: Any, actions: list[Any]) -> None:
    quiet.stages.hold()
    machine = Machine(quiet, quiet.converse())
    try:
        for action in (("start", "a"), *actions):
            await machine.do(*action)
        await machine.close()
    finally:
        machine.caller.call.cancel()
        quiet.stages.release()
        await quiet.idle()
