"""The talker's state where several processes share a model: each has a copy, all are told the same in the same order.

Logits are the same on every rank and draws are pure, so copies that begin alike stay alike. This one, on the host, has
no model: it hands out slots and places, and its rows are those of rank 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from talkwire_pipeline.messages import Codes
from talkwire_pipeline.talker.egress import Entry
from talkwire_pipeline.talker.ids import IdSpace
from talkwire_pipeline.talker.parameters import GenerationSpec
from talkwire_pipeline.talker.state import RowBatch, TalkerState

Tell = Callable[[str, tuple[Any, ...]], list[Any]]
"""Calls a method of every rank's state; the results by rank."""


class ReplicatedState(TalkerState):
    """A `TalkerState` whose `sample` runs elsewhere; `connect` says where."""

    _tell: Tell | None = None
    _behind = False

    def __init__(self, ids: IdSpace, max_positions: int) -> None:
        super().__init__(ids, max_positions, torch.device("cpu"))

    def connect(self, tell: Tell) -> None:
        """From now on the ranks hear of everything; a `reset` behind it makes all of them alike."""
        self._tell = tell

    def reset(self) -> None:
        """See `TalkerState`."""
        super().reset()
        self._behind = False
        self._all("reset")

    def open(self, spec: GenerationSpec) -> int:
        """See `TalkerState`."""
        slot = super().open(spec)
        self._all("open", spec)
        return slot

    def close(self, slot: int) -> None:
        """See `TalkerState`."""
        super().close(slot)
        self._all("close", slot)

    def put_reference(self, codes: Codes) -> list[int]:
        """See `TalkerState`."""
        ids = super().put_reference(codes)
        self._all("put_reference", codes)
        return ids

    def drop_reference(self, ids: list[int]) -> None:
        """See `TalkerState`."""
        super().drop_reference(ids)
        self._all("drop_reference", ids)

    @property
    def pending(self) -> bool:
        """See `TalkerState`."""
        return self._behind

    def drain(self) -> RowBatch:
        """See `TalkerState`."""
        entries: list[Entry] = []
        if self._tell is not None:
            entries, self._behind = self._tell("take", ())[0]
        for entry in entries:
            self._egress.put(torch.from_numpy(entry))
        return super().drain()

    def _all(self, name: str, *arguments: Any) -> None:
        if self._tell is not None:
            self._tell(name, arguments)
