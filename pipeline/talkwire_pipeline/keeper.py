"""Keeps one stage running: starts it, sees it end, starts it again. asyncio, no torch."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from talkwire_pipeline.child import Child
from talkwire_pipeline.errors import CheckpointError, DeployError, TalkwireError, UnavailableError
from talkwire_pipeline.link import Link
from talkwire_pipeline.messages import Failed, Hello, Message, Ping, Pong, Ready, StageName, Stop
from talkwire_pipeline.procfs import resident_bytes
from talkwire_pipeline.stages import StageState

log = logging.getLogger(__name__)

_OWN_ERRORS = {error.reason: error for error in (CheckpointError, DeployError)}
"""Errors that a stage's words are turned back into; all others are `UnavailableError`."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things may take, in seconds.

    Attributes:
        ready_s: from start to `Ready`: loading and warm-up.
        ping_s: between two pings while work is due.
        pings_owed: a stage that owes so many answers is killed.
        backoff_s: wait before the first restart; doubles with each start that fails.
        max_backoff_s: where it stops to double.
        starts: so many failed starts in a row, and the stage is given up.
        stop_s: between `Stop` and SIGTERM.
        terminate_s: between SIGTERM and SIGKILL.
        memory_bytes: a stage whose resident memory is above that is killed.
    """

    ready_s: float = 120.0
    ping_s: float = 1.0
    pings_owed: int = 5
    backoff_s: float = 0.5
    max_backoff_s: float = 10.0
    starts: int = 5
    stop_s: float = 2.0
    terminate_s: float = 1.0
    memory_bytes: float = math.inf


class Keeper:
    """One stage over all its lives.

    Args:
        stage: which one.
        spawn: starts a process for it.
        limits: how long things may take.
        on_message: takes the messages that are not about the process itself.
        on_state: takes each new state.

    Attributes:
        link: its edges with the server; set before `run`.
        state: what it is in now.
        fault: why it went down the last time.
        facts: what it said with its last `Ready`.
        pid: of the process that runs; 0: none does.
        restarts: how often it was started again.
        first: done when it was ready once, or with the error of its first start.
    """

    link: Link

    def __init__(
        self,
        stage: StageName,
        spawn: Callable[[], Awaitable[Child]],
        limits: Limits,
        on_message: Callable[[StageName, Message], None],
        on_state: Callable[[StageName, StageState], None],
    ) -> None:
        self.stage = stage
        self.state: StageState = "down"
        self.fault = ""
        self.facts: dict[str, Any] = {}
        self.pid = 0
        self.restarts = -1
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._spawn = spawn
        self._limits = limits
        self._on_message = on_message
        self._on_state = on_state
        self._child: Child | None = None
        self._reason = ""  # why this life ends, as far as it is known
        self._load_limit: asyncio.Timeout | None = None
        self._nonces = itertools.count(1)
        self._owed = 0
        self._said: dict[str, float] = {}  # with the last `Pong` of the process that runs
        self._pinged_at_s: float | None = None  # the oldest ping that is not answered

    async def run(self) -> None:
        """Keeps the stage running until it is given up. Cancelled: ends it."""
        failed = 0
        while True:
            failed = 0 if await self._live() else failed + 1
            if not self.first.done():
                self.first.set_exception(self._error())
                return
            if failed >= self._limits.starts:
                log.error("%s stage: given up after %d starts: %s", self.stage, failed, self.fault)
                return
            await asyncio.sleep(min(self._limits.backoff_s * 2**failed, self._limits.max_backoff_s))

    # ---- one life

    async def _live(self) -> bool:
        """One process, from start to end. Returns whether it was ready."""
        self._reason = ""
        self.forgive()
        self.restarts += 1
        self._enter("starting")
        try:
            self._child = await self._spawn()
        except OSError as error:
            self._reason = f"cannot be started: {error}"
        else:
            await self._watch(self._child)
        was_ready = self.state == "ready"
        self.fault = self._reason
        log.error("%s stage: %s", self.stage, self.fault)
        self._enter("down")
        return was_ready

    async def _watch(self, child: Child) -> None:
        self.pid = child.pid
        try:
            async with asyncio.timeout(self._limits.ready_s) as self._load_limit:
                await child.wait()
        except TimeoutError:
            self._reason = f"was not ready within {self._limits.ready_s:g} s"
        finally:
            await self._end(child)

    async def _end(self, child: Child) -> None:
        """Of a process that may have ended, or must end now."""
        if self.state == "ready":
            self.link.send(Stop())
        try:
            await child.end(self._limits.stop_s if self.state == "ready" else 0.0, self._limits.terminate_s)
        finally:
            self.link.reset()
            self._child = None
            self.pid = 0
            self._said = {}
            self._reason = self._reason or ": ".join(filter(None, (child.how_it_ended, child.last_words)))

    def _enter(self, state: StageState) -> None:
        self.state = state
        self._on_state(self.stage, state)

    def _error(self) -> TalkwireError:
        reason, _, words = self.fault.partition(": ")
        kind = _OWN_ERRORS.get(reason)
        return UnavailableError(f"{self.stage} stage: {self.fault}") if kind is None else kind(words)

    # ---- messages

    def receive(self, message: Message) -> None:
        """Takes a message of the stage: acts on those about the process, hands on the others."""
        match message:
            case Hello(pid=pid):
                log.info("%s stage loads in process %d", self.stage, pid)
            case Ready(facts=facts):
                self._is_ready(facts)
            case Pong(stats=stats):
                self.forgive()
                self._said = stats
            case Failed(generation=0, detail=detail):
                self._reason = detail
            case _:
                self._on_message(self.stage, message)

    def _is_ready(self, facts: dict[str, Any]) -> None:
        self.facts = facts
        if self._load_limit is not None:
            self._load_limit.reschedule(None)
        log.info("%s stage is ready", self.stage)
        self._enter("ready")
        self.ping()  # for its figures
        if not self.first.done():
            self.first.set_result(None)

    def send(self, message: Message) -> None:
        """Sends, or drops it if the stage is not ready."""
        if self.state == "ready":
            self.link.send(message)

    def ping(self) -> None:
        """Asks for a sign of life, or kills a stage that owes too many."""
        if self.state != "ready" or self._child is None:
            return
        if reason := self._unfit():
            self._reason = reason
            self._child.kill()
            return
        self._owed += 1
        self._pinged_at_s = self._pinged_at_s or time.monotonic()
        self.send(Ping(nonce=next(self._nonces)))

    def _unfit(self) -> str:
        """Why the process must end; empty: it need not."""
        if self._owed >= self._limits.pings_owed:
            return f"answered no ping for {self._owed * self._limits.ping_s:g} s"
        used = resident_bytes(self.pid) or 0
        if used > self._limits.memory_bytes:
            return (
                f"uses {used >> 20} MiB of memory, more than memory_limit_mib: {int(self._limits.memory_bytes) >> 20}"
            )
        return ""

    def forgive(self) -> None:
        """No answer is owed any more."""
        self._owed = 0
        self._pinged_at_s = None

    @property
    def stats(self) -> dict[str, float]:
        """What the process that runs said last, with the figures of this side of its edges; empty: it said nothing."""
        return self._said | self.link.stats() if self._said else {}

    @property
    def silence_s(self) -> float:
        """For how long it has owed an answer."""
        return 0.0 if self._pinged_at_s is None else time.monotonic() - self._pinged_at_s
