"""The server's two edges with one stage: commands out, replies in. asyncio, no torch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from talkwire_pipeline.connector.edge import Receiver, Sender
from talkwire_pipeline.connector.ring import Ring
from talkwire_pipeline.messages import Message
from talkwire_pipeline.stage.outbox import Outbox

log = logging.getLogger(__name__)


class Link:
    """Lives as long as the supervisor, over all restarts of the stage.

    Args:
        commands: ring to the stage.
        replies: ring from it.
        on_message: takes each message. Its arrays are views that end with the call.
    """

    def __init__(self, commands: Ring, replies: Ring, on_message: Callable[[Message], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._sender = Sender(commands)
        self._receiver = Receiver(replies)
        self._outbox = Outbox(self._sender, self._on_parked)
        self._on_message = on_message
        self._loop.add_reader(self._receiver.fileno, self._receive)

    def send(self, message: Message) -> None:
        """Sends; what finds no room waits its turn."""
        self._outbox.send(message)

    def reset(self) -> None:
        """The stage has ended: hands on what it still said, and drops what was on its way to it."""
        self._receive()
        self._receiver.discard()
        self._outbox.clear()

    def stats(self) -> dict[str, float]:
        """Figures of the server's two ends by name."""
        return self._outbox.stats() | self._receiver.stats()

    def close(self) -> None:
        """Stops listening."""
        self._outbox.clear()
        self._loop.remove_reader(self._receiver.fileno)
        self._receiver.close()
        self._sender.close()

    def _on_parked(self, parked: bool) -> None:
        if parked:
            self._loop.add_reader(self._outbox.fileno, self._outbox.flush)
        else:
            self._loop.remove_reader(self._outbox.fileno)

    def _receive(self) -> None:
        for received in self._receiver.receive():
            try:
                self._on_message(received.message)
            except Exception:  # one message's fault must not lose those behind it
                log.exception("%s of generation %d", type(received.message).__name__, received.message.generation)
