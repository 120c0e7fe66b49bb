"""One stream: its events change utterances, and its utterances' events become responses, fairly. Knows no gRPC.

A reader task calls `obey`, one writer task calls `next`; each RPC has exactly one of both.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import AsyncIterable, Callable
from typing import Any

from talkwire.v1 import speech_pb2 as pb
from talkwire_pipeline.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    TalkwireError,
    TimedOutError,
    UnavailableError,
)
from talkwire_server import requests
from talkwire_server.admission import Admission, draining
from talkwire_server.errors import internal_error
from talkwire_server.live import LiveUtterance, Outgoing
from talkwire_server.wire import Malformed

log = logging.getLogger(__name__)

OUTBOX_LIMIT = 16
"""Refusals and `error` answers that may wait to be written before the reader waits too."""
_ONLY = "only"
"""The id of the utterance of a stream that carries one."""
REMEMBERED_IDS = 1024
"""Ended utterances that a stream remembers, so that a late `abort` is known to be late."""


class Session:
    """The utterances of one stream. Its owner closes it.

    Attributes:
        key: name of the key that opened it; empty: nobody needs one.

    `trace` is what the RPC is part of, by `Tracing.parent`.
    """

    def __init__(self, admission: Admission, key: str = "", trace: Any = None) -> None:
        self.key = key
        self._trace = trace
        self._admission = admission
        self._voice = admission.pipeline.stream_voice()
        self._idle_s = admission.limits.idle_timeout_s
        self._live: dict[str, LiveUtterance] = {}
        self._turns: deque[LiveUtterance] = deque()
        self._over: deque[str] = deque(maxlen=REMEMBERED_IDS)
        self._outbox: deque[Outgoing] = deque()
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._text_over = False
        self._heard_at = asyncio.get_running_loop().time()
        self._aged_at = self._heard_at + (admission.limits.max_connection_age_s or math.inf)
        admission.streams.add(self)
        admission.metrics.streams.inc()

    def close(self) -> None:
        """Drops every live utterance and frees what the stream holds. Idempotent."""
        if self in self._admission.streams:
            self._admission.streams.remove(self)
            self._admission.metrics.streams.dec()
        for live in self._live.values():
            live.drop()
        self._live.clear()
        self._turns.clear()
        self._voice.close()

    # ---- the reader's side

    async def read(self, events: AsyncIterable[pb.ConverseRequest | Malformed]) -> None:
        """Obeys the caller's events until it half-closes; waits while the caller does not take our answers."""
        try:
            async for event in events:
                self.obey(event)
                while len(self._outbox) >= OUTBOX_LIMIT:
                    self._room.clear()
                    await self._room.wait()
        finally:
            self.end_text()

    def speak(self, request: pb.SynthesizeRequest) -> None:
        """A whole utterance, and the caller's half-close. Raises `InvalidArgumentError`; a refusal is a response."""
        if request.utterance_id:
            requests.check_id(request.utterance_id)
        requests.check_text(request.text, "text")
        self._start(_ONLY, request.start)
        if live := self._live.get(_ONLY):
            try:
                live.push(request.text)
            except InvalidArgumentError as error:
                raise InvalidArgumentError("text", error.description) from error
        self.end_text()

    def obey(self, event: pb.ConverseRequest | Malformed) -> None:
        """One event of the caller. Whatever is wrong with it is answered; nothing is raised."""
        self._heard()
        if isinstance(event, Malformed):
            self._reply("", "error", event.error)
            return
        try:
            self._dispatch(event)
        except TalkwireError as error:
            self._reply(event.utterance_id[: requests.MAX_ID_CHARS], "error", error)
        except Exception:
            self._fault(event.utterance_id)

    def end_text(self) -> None:
        """The caller half-closed: no more text for any live utterance, and the stream ends after the last."""
        self._text_over = True
        for utterance_id in list(self._live):
            self.obey(pb.ConverseRequest(utterance_id=utterance_id, end=pb.End()))
        self.wake()

    def _dispatch(self, event: pb.ConverseRequest) -> None:
        name = event.WhichOneof("event")
        if name == "keepalive":
            return
        requests.check_id(event.utterance_id)
        if name is None:
            raise InvalidArgumentError("event", "is missing, or is one that this server does not know")
        if name == "start":
            self._start(event.utterance_id, event.start)
        elif live := self._find(event.utterance_id, name):
            _INPUTS[name](live, event)

    def _start(self, utterance_id: str, start: pb.Start) -> None:
        if utterance_id in self._live:
            text = f"utterance {utterance_id!r} is live on this stream: take another id, or wait for its end event"
            raise AlreadyExistsError(text, reason="UTTERANCE_ID_IN_USE")
        try:
            if self._aged:
                raise aged()
            deploy = self._admission.pipeline.deploy
            opening = requests.opening(start, deploy.geometry, deploy.runner.model_runner)
            utterance = self._admission.open(opening, self._voice, len(self._live), self.key, self._trace)
        except TalkwireError as error:
            self._reply(utterance_id, "failed", error)
            self._over.append(utterance_id)
            return
        live = LiveUtterance(utterance_id, utterance, opening.form, self._admission)
        self._live[utterance_id] = live
        self._turns.append(live)
        utterance.outlet.on_event = self.wake
        if (started := self._answer(live)) is not None:  # before any `error` that has this id
            self._outbox.append(started)
        self.wake()

    def _answer(self, live: LiveUtterance) -> Outgoing | None:
        """What the utterance has to say now."""
        outgoing = live.take()
        if live.ended:
            self._forget(live)
        return outgoing

    def _find(self, utterance_id: str, name: str) -> LiveUtterance | None:
        """The live utterance that takes the event; None: the event comes too late to matter."""
        live = self._live.get(utterance_id)
        if live is not None:
            return None if live.aborting else live
        if utterance_id not in self._over:
            raise NotFoundError(
                f"{name}: no utterance {utterance_id!r} is live on this stream", reason="UNKNOWN_UTTERANCE"
            )
        if name == "abort":
            return None
        raise FailedPreconditionError(f"{name}: utterance {utterance_id!r} has ended", reason="UTTERANCE_ENDED")

    def _fault(self, utterance_id: str) -> None:
        """A fault of ours while obeying: it ends the utterance that it hit, or is just answered."""
        error, fault_id = internal_error("the event")
        log.exception("fault %s", fault_id)
        if live := self._live.get(utterance_id):
            self._outbox.append(live.fail(error))
            self._forget(live)
            self.wake()
        else:
            self._reply(utterance_id, "error", error)

    def _reply(self, utterance_id: str, name: str, error: TalkwireError) -> None:
        self._outbox.append(Outgoing(utterance_id, name, error))
        self.wake()

    def _heard(self) -> None:
        """The idle limit counts from now on."""
        self._heard_at = asyncio.get_running_loop().time()
        self.wake()

    # ---- the server's side

    def wake(self) -> None:
        """The writer has something to look at."""
        self._wake.set()

    def fail(self, error: TalkwireError) -> None:
        """Ends every live utterance with this error."""
        for live in list(self._live.values()):
            if self._admission.find(live.utterance.server_id):  # else its own end event waits to be taken
                self._outbox.append(live.fail(error))
                self._forget(live)
        self.wake()

    def _forget(self, live: LiveUtterance) -> None:
        del self._live[live.utterance_id]
        self._turns.remove(live)
        self._over.append(live.utterance_id)
        self._heard()

    # ---- the writer's side

    async def next(self) -> Outgoing | None:
        """Waits for the next response; None: the stream is over.

        Raises `TimedOutError` where the caller has been silent for too long, and `UnavailableError` where nothing is
        live and the server drains or the stream is too old.
        """
        while True:
            self._wake.clear()
            if (outgoing := self._take()) is not None:
                return outgoing
            if not self._live and self._text_over:
                return None
            if not self._live and self._admission.draining:
                raise draining()
            if not self._live and self._aged:
                raise aged()
            await self._wait()

    def _take(self) -> Outgoing | None:
        """Answers first, then the utterances in turns of one response each."""
        if self._outbox:
            self._room.set()
            return self._outbox.popleft()
        for _ in range(len(self._turns)):
            live = self._turns[0]
            self._turns.rotate(-1)
            if (outgoing := self._answer(live)) is not None:
                return outgoing
        return None

    @property
    def _aged(self) -> bool:
        return asyncio.get_running_loop().time() >= self._aged_at

    async def _wait(self) -> None:
        if self._live:
            await self._wake.wait()
            return
        idle_at = self._heard_at + self._idle_s
        try:
            async with asyncio.timeout_at(min(idle_at, self._aged_at)):
                await self._wake.wait()
        except TimeoutError:
            if self._aged:
                return
            text = f"nothing was live and nothing came for {self._idle_s:g} s: keepalive events keep a stream open"
            raise TimedOutError(text, reason="STREAM_IDLE") from None


def aged() -> UnavailableError:
    """Why a stream takes no more utterances that is older than `server.max_connection_age_s`."""
    text = "the stream has reached server.max_connection_age_s: open another, on a new connection"
    return UnavailableError(text, reason="STREAM_AGE", retry_after_s=0.0)


def _push(live: LiveUtterance, event: pb.ConverseRequest) -> None:
    requests.check_text(event.text.text, "text.text")
    live.push(event.text.text)


def _flush(live: LiveUtterance, _event: pb.ConverseRequest) -> None:
    live.flush()


def _end(live: LiveUtterance, _event: pb.ConverseRequest) -> None:
    live.end()


def _abort(live: LiveUtterance, event: pb.ConverseRequest) -> None:
    live.abort(requests.played_samples(event.abort, "abort.played_samples"))


_INPUTS: dict[str, Callable[[LiveUtterance, pb.ConverseRequest], None]] = {
    "text": _push,
    "flush": _flush,
    "end": _end,
    "abort": _abort,
}
