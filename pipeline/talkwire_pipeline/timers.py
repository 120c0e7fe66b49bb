"""Named timers of one owner, on the running event loop."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable


class Timers:
    """Timers by name; setting one that runs replaces it."""

    def __init__(self) -> None:
        self._handles: dict[str, asyncio.TimerHandle] = {}

    def __contains__(self, name: str) -> bool:
        """Whether it was set, and not cancelled since."""
        return name in self._handles

    def left_s(self, name: str) -> float:
        """How long until it calls; infinite for one that does not run."""
        handle = self._handles.get(name)
        return math.inf if handle is None else handle.when() - asyncio.get_running_loop().time()

    def set(self, name: str, delay_s: float, call: Callable[[], None]) -> None:
        """Calls `call` once, after `delay_s`."""
        self.cancel(name)
        self._handles[name] = asyncio.get_running_loop().call_later(delay_s, call)

    def cancel(self, name: str) -> None:
        """Stops it; a no-op for one that does not run."""
        if (handle := self._handles.pop(name, None)) is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        """Stops all."""
        for name in list(self._handles):
            self.cancel(name)
