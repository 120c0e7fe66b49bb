"""What a runner is: the thing that steps the backbone for all slots. Three of them share one state and one loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Runner(Protocol):
    """Steps all generations together. It knows ids and positions, nothing of codes or of who listens.

    A step embeds each slot's ids through `TalkerState.codes_at`, runs the backbone, and gives the logits of every
    slot that wants a row to `TalkerState.sample`, which returns the ids to feed next. A slot whose id is STOP, or
    that has `max_rows` rows, is left by the runner itself.
    """

    def add(self, slot: int, prompt_ids: Sequence[int], max_rows: int) -> None:
        """Takes a generation in from the next step on. `prompt_ids` are engine ids; the last is a step id of `slot`."""

    def abort(self, slot: int) -> None:
        """Leaves the slot at once; a no-op for a slot that it does not hold."""

    def step(self) -> bool:
        """One step for all slots. False if there was nothing to do."""

    def stats(self) -> dict[str, float]:
        """Figures of the runner's own by name; `kv_used_ratio` is what of keys and values is in use."""

    def close(self) -> None:
        """Frees what it holds."""
