"""Drives a state and its runner as the talker's loop does, and keeps the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from talkwire_pipeline.messages import Codes
from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.talker.parameters import GenerationSpec
from talkwire_pipeline.talker.runner import Runner
from talkwire_pipeline.talker.state import TalkerState


@dataclass
class Talker:
    """A state, a runner, and the rows that came: `rows` by slot, and which slots have ended by themselves."""

    state: TalkerState
    runner: Runner
    rows: dict[int, list[Any]] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)

    def open(self, prompt: Sequence[int], max_rows: int, sampling: Sampling, reference: Codes | None = None) -> int:
        """Starts a generation: a prompt of text ids behind a reference's rows. Returns its slot."""
        return self.open_with(
            [] if reference is None else self.state.put_reference(reference), prompt, max_rows, sampling
        )

    def open_with(self, bank: Sequence[int], prompt: Sequence[int], max_rows: int, sampling: Sampling) -> int:
        """The same, with the ids of a reference that is there already."""
        slot = self.state.open(GenerationSpec(len(bank) + len(prompt) + 1, sampling))
        text = [self.state.ids.steps + id_ for id_ in prompt]
        self.runner.add(slot, [*bank, *text, self.state.step_id(slot)], max_rows)
        self.rows[slot] = []
        return slot

    def close(self, slot: int) -> None:
        """Drops what is left of a generation."""
        self.runner.abort(slot)
        self.state.close(slot)

    def step(self) -> list[int]:
        """One step: the slots that got a row."""
        self.runner.step()
        return self._take()

    def _take(self) -> list[int]:
        batch = self.state.drain()
        for slot, codes, last in zip(batch.slots.tolist(), batch.codes, batch.last, strict=True):
            self.rows[slot].append(codes.tolist())
            if last:
                self.ended.add(slot)
        return sorted(batch.slots.tolist())

    def finish(self) -> None:
        """Steps until there is nothing left to do."""
        while self.runner.step():
            self._take()
