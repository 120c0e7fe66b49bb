"""What waits to be written on a call: bounded for those who may wait, and emptied as a whole when the call is lost."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from talkwire.v1 import speech_pb2 as pb

LIMIT_REQUESTS = 32
"""Requests that may wait before `room` makes their sender wait too."""


class Outbox:
    """A queue of requests, `None` being the half-close. One task takes."""

    def __init__(self) -> None:
        self._waiting: deque[pb.ConverseRequest | None] = deque()
        self._filled = asyncio.Event()
        self._room = asyncio.Event()

    def put(self, request: pb.ConverseRequest | None) -> None:
        """Appends; never waits."""
        self._waiting.append(request)
        self._filled.set()

    async def room(self) -> None:
        """Returns when there is room for another request, or `clear` was called."""
        if len(self._waiting) >= LIMIT_REQUESTS:
            self._room.clear()
            await self._room.wait()

    async def take(self) -> pb.ConverseRequest | None:
        """The next request, once there is one."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        request = self._waiting.popleft()
        self._room.set()
        return request

    def clear(self, instead: Iterable[pb.ConverseRequest] = ()) -> None:
        """Drops all that waits and puts `instead` in its place; whoever waits for room goes on."""
        self._waiting.clear()
        for request in instead:
            self.put(request)
        self._room.set()
