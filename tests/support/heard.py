"""Keeps what stages said, and lets a test wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from talkwire_pipeline.messages import Audio, Message, StageName, TalkerDone
from talkwire_pipeline.stages import StageState


class Heard:
    """The two callbacks of `Stages.start`. Arrays are copied, as everybody must who keeps them.

    Attributes:
        messages: all, with the stage that said them.
        states: all, in order.
    """

    def __init__(self) -> None:
        self.messages: list[tuple[StageName, Message]] = []
        self.states: list[tuple[StageName, StageState]] = []
        self._changed = asyncio.Event()

    def on_message(self, stage: StageName, message: Message) -> None:
        match message:
            case Audio(samples=samples):
                message = msgspec.structs.replace(message, samples=samples.copy())
            case TalkerDone(codes=codes):
                message = msgspec.structs.replace(message, codes=codes.copy())
        self.messages.append((stage, message))
        self._changed.set()

    def on_state(self, stage: StageName, state: StageState) -> None:
        self.states.append((stage, state))
        self._changed.set()

    def of(self, kind: type[Message], generation: int | None = None) -> list[Any]:
        """Messages of one kind, of one generation or of all."""
        every = [message for _, message in self.messages if isinstance(message, kind)]
        return [each for each in every if generation in (None, each.generation)]

    def audio(self, generation: int = 1) -> npt.NDArray[np.float32]:
        """What the codec said of a generation, which must be without a gap."""
        position = 0
        chunks = self.of(Audio, generation)
        for chunk in chunks:
            assert chunk.first_sample == position
            position += len(chunk.samples)
        return np.concatenate([chunk.samples for chunk in chunks]) if chunks else np.zeros(0, np.float32)

    async def until(self, condition: Callable[[], object]) -> None:
        """Returns when it is true; looks whenever something was said."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()
