"""The sending end of an edge that never blocks: what finds no room waits here, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from talkwire_pipeline.connector.edge import Sender
from talkwire_pipeline.messages import Message


class Outbox:
    """Sends, or parks what does not fit the ring now.

    Whoever owns it waits on `fileno` while messages are parked and then calls `flush`.

    Args:
        sender: the edge's sending end.
        on_parked: told True when the first message is parked and False when none is any more.
    """

    def __init__(self, sender: Sender, on_parked: Callable[[bool], None]) -> None:
        self._sender = sender
        self._on_parked = on_parked
        self._parked: deque[Message] = deque()

    @property
    def fileno(self) -> int:
        """Readable when room came back."""
        return self._sender.fileno

    def stats(self) -> dict[str, float]:
        """Figures of the sending end by name."""
        return self._sender.stats()

    @property
    def parked(self) -> int:
        """Messages that wait for room."""
        return len(self._parked)

    def send(self, message: Message) -> None:
        """Sends or parks. Arrays of a parked message must stay as they are."""
        if self._parked:
            self._parked.append(message)
        elif not self._sender.send(message):
            self._parked.append(message)
            self._on_parked(True)

    def flush(self) -> None:
        """Sends what was parked, as far as there is room."""
        if not self._parked:
            return
        self._sender.acknowledge()
        while self._parked and self._sender.send(self._parked[0]):
            self._parked.popleft()
        if not self._parked:
            self._on_parked(False)

    def clear(self) -> None:
        """Drops what was parked: nobody is there to read it."""
        if self._parked:
            self._parked.clear()
            self._on_parked(False)
