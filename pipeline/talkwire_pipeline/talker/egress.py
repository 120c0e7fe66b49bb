"""How sampled rows leave the device: in order, and without the sampler waiting for them."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

Entry = npt.NDArray[np.int32]
"""What one `sample` call put out: [n, columns] int32."""
CAPACITY = 64
"""Entries that may wait to be taken."""


class EgressOverrunError(RuntimeError):
    """Rows were lost: `take` was not called for `CAPACITY` puts."""


class Egress(Protocol):
    """A queue of entries from the device to the host."""

    def put(self, entry: torch.Tensor) -> None:
        """Queues `entry` [n, columns] int32; never waits."""

    def take(self) -> list[Entry]:
        """The entries that have arrived, in order; raises `EgressOverrunError` if some were lost."""

    def clear(self) -> None:
        """Drops all that is queued."""

    @property
    def pending(self) -> bool:
        """Whether entries are queued that were not taken."""


def make_egress(device: torch.device, max_rows: int, columns: int) -> Egress:
    """The egress for a device; `max_rows` is the largest n of an entry."""
    if device.type == "cuda":
        return PinnedEgress(max_rows, columns)
    return HostEgress()


class HostEgress:
    """For a device without events: an entry is on the host when it is put."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=CAPACITY)
        self._lost = False

    def put(self, entry: torch.Tensor) -> None:
        """See `Egress`."""
        self._lost |= len(self._entries) == CAPACITY
        self._entries.append(entry.cpu().numpy())

    def take(self) -> list[Entry]:
        """See `Egress`."""
        entries, lost = list(self._entries), self._lost
        self.clear()
        if lost:
            raise EgressOverrunError
        return entries

    def clear(self) -> None:
        """See `Egress`."""
        self._entries.clear()
        self._lost = False

    @property
    def pending(self) -> bool:
        """See `Egress`."""
        return bool(self._entries)


class PinnedEgress:
    """For CUDA: a ring in pinned memory, each place with an event that says when its copy is complete."""

    def __init__(self, max_rows: int, columns: int) -> None:
        # The device must be said: an engine may build us under a default device of its own.
        self._ring = torch.empty(CAPACITY, max_rows, columns, dtype=torch.int32, device="cpu", pin_memory=True)
        self._events = [torch.Event("cuda") for _ in range(CAPACITY)]
        self._counts = [0] * CAPACITY
        self._head = 0
        self._tail = 0

    def put(self, entry: torch.Tensor) -> None:
        """See `Egress`."""
        place = self._head % CAPACITY
        self._counts[place] = len(entry)
        self._ring[place, : len(entry)].copy_(entry, non_blocking=True)
        self._events[place].record()
        self._head += 1

    def take(self) -> list[Entry]:
        """See `Egress`."""
        if self._head - self._tail > CAPACITY:
            self.clear()
            raise EgressOverrunError
        entries = []
        while self._tail < self._head and self._events[self._tail % CAPACITY].query():
            place = self._tail % CAPACITY
            entries.append(self._ring[place, : self._counts[place]].numpy().copy())
            self._tail += 1
        return entries

    def clear(self) -> None:
        """See `Egress`."""
        self._tail = self._head

    @property
    def pending(self) -> bool:
        """See `Egress`."""
        return self._tail < self._head
