"""Stands between callers and a server, and cuts their connections as a machine does that loses its power."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_NO_GOODBYE = struct.pack("ii", 1, 0)
"""Linger for 0 s: what is not sent is dropped, and the peer gets a reset."""
_PIECE_BYTES = 1 << 16


class Relay:
    """Passes bytes on, both ways.

    Attributes:
        target: for callers.
    """

    def __init__(self, server: str) -> None:
        self.target = ""
        self._server = server
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A caller's connection."""
        host, _, port = self._server.rpartition(":")
        onward_reader, onward_writer = await asyncio.open_connection(host, int(port))
        self._writers |= {writer, onward_writer}
        for source, sink in ((reader, onward_writer), (onward_reader, writer)):
            task = asyncio.create_task(self._pass_on(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(_PIECE_BYTES):
                sink.write(data)
                await sink.drain()
        except OSError:
            pass  # cut
        finally:
            self._writers.discard(sink)
            sink.transport.abort()

    def cut(self) -> None:
        """Resets every connection, to both sides."""
        for writer in self._writers:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_GOODBYE)
            writer.transport.abort()
        self._writers.clear()

    async def settle(self) -> None:
        """Returns when nothing is passed on any more."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def relaying(server: str) -> AsyncIterator[Relay]:
    """A relay to `server` on a free port of loopback; all that goes through it is cut at the end."""
    relay = Relay(server)
    listener = await asyncio.start_server(relay.accept, "127.0.0.1", 0)
    relay.target = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield relay
    finally:
        listener.close()
        relay.cut()
        await relay.settle()
        await listener.wait_closed()
