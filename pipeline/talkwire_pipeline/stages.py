"""The two stages as the server process sees them. What runs them is `supervisor`; `fakes` stands in for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from talkwire_pipeline.messages import Message, StageName

StageState = Literal["starting", "ready", "down"]
"""`starting`: loads and warms up; `ready`: takes messages; `down`: ended, or not started yet."""
STALLED_S = 2.5
"""A stage that has owed an answer for so long gets no new utterances; a little later it is ended."""
OnMessage = Callable[[StageName, Message], None]
"""Takes a stage's message. Its arrays are views that end with the call: what is kept must be copied."""
OnState = Callable[[StageName, StageState], None]
"""Takes a stage's new state."""


@dataclass(frozen=True, slots=True)
class StageHealth:
    """A stage's process.

    Attributes:
        pid: 0: none runs.
        restarts: how often it was started again.
        silence_s: for how long it has owed an answer; 0 while none is due.
    """

    pid: int = 0
    restarts: int = 0
    silence_s: float = 0.0

    @property
    def stalled(self) -> bool:
        """Whether it has owed an answer for longer than a step or a call takes."""
        return self.silence_s > STALLED_S


class Stages(Protocol):
    """The talker and the codec, wherever they run. All calls belong to the thread of one event loop."""

    async def start(self, on_message: OnMessage, on_state: OnState) -> None:
        """Starts both and returns when both are ready.

        Raises `CheckpointError`, `DeployError` or `UnavailableError` with the stage's own words; nothing runs then.
        """

    def send(self, stage: StageName, message: Message) -> None:
        """Hands a message over. Never blocks, keeps the order; what goes to a stage that is not ready is dropped."""

    def watch(self, work_due: bool) -> None:
        """Whether the stages owe work now. Only then must they answer pings; one that does not is ended."""

    def state(self, stage: StageName) -> StageState:
        """The stage's state."""

    def fault(self, stage: StageName) -> str:
        """Why the stage went down the last time, in its own words where it had any; empty: it never did."""

    def facts(self, stage: StageName) -> dict[str, Any]:
        """What the stage said about itself when it became ready; empty before."""

    def stats(self, stage: StageName) -> dict[str, float]:
        """Its counters and gauges, as the process that runs last said them, and of the edges to it; empty before."""

    def health(self, stage: StageName) -> StageHealth:
        """How its process is."""

    async def close(self) -> None:
        """Ends both. Idempotent."""
