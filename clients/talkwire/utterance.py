"""One utterance of a `Converse` stream, as its caller holds it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from talkwire.audio import Event, Speech, SpeechBuilder
from talkwire.errors import DeadlineExceeded, FailedPrecondition, TalkwireError
from talkwire.replay import Replay
from talkwire.text import TextDecoder
from talkwire.v1 import speech_pb2 as pb

Post = Callable[[pb.ConverseRequest], Awaitable[None]]
"""Puts a request on the stream; raises the stream's failure where there is no stream any more."""
_ENDS = (pb.Finished, pb.Aborted, TalkwireError)


class Utterance:
    """Text goes in by `push`, `flush` and `end`; events come out by `async for`, in order, the end event last.

    A failure is raised by the iteration. So is a refusal of something that was sent (text beyond a quota, say), but
    that ends nothing: the next one is waited for by iterating again. What arrives waits here without limit, so that no
    utterance of a stream holds up another. As a context manager it aborts on leaving unless it has ended. Made by
    `Stream.utterance`.

    Where the connection is lost before the first audio, it is spoken again on another one, once, with the same seed;
    events that were heard before do not come again. After the first audio it fails with `Unavailable`.
    """

    def __init__(self, utterance_id: str, post: Post) -> None:
        self.id = utterance_id
        self.started: pb.Started | None = None
        """What the server accepted, once it has."""
        self.replay = Replay()
        """For the stream, should it lose its call."""
        self._post = post
        self._decoder = TextDecoder()
        self._text_ended = False
        self._muted = False
        self._events: deque[Event | TalkwireError] = deque()
        self._end: pb.Finished | pb.Aborted | TalkwireError | None = None
        self._arrived = asyncio.Event()
        self._ended = asyncio.Event()

    @property
    def ended(self) -> bool:
        """Whether the end event has arrived; events may still wait to be read."""
        return self._end is not None

    async def push(self, text: str | bytes) -> None:
        """Appends text, cut anywhere; `bytes` are UTF-8.

        Raises `InvalidArgument` for what is no Unicode text, `FailedPrecondition` after `end`, `abort` or the end
        event, and the utterance's own failure if it has failed.
        """
        self._check_open()
        if piece := self._decoder.feed(text):
            await self._post(pb.ConverseRequest(utterance_id=self.id, text=pb.TextIncrement(text=piece)))

    async def flush(self) -> None:
        """Has everything spoken that was sent so far; answered by `Flushed`. Raises as `push` does."""
        self._check_open()
        await self._post(pb.ConverseRequest(utterance_id=self.id, flush=pb.Flush()))

    async def end(self) -> None:
        """Says that no more text comes. Does nothing the second time or after the end event.

        Raises `InvalidArgument` where the text ends inside a character.
        """
        if self._text_ended or self._muted or self.ended:
            return
        self._decoder.end()
        self._text_ended = True
        await self._post(pb.ConverseRequest(utterance_id=self.id, end=pb.End()))

    async def abort(self, played_samples: int | None = None, *, timeout_s: float = 5.0) -> pb.Aborted | None:
        """Drops the utterance and the audio that waits here; returns what the server says was spoken.

        `played_samples` is how far the player got. None comes back where the utterance had ended by itself.
        May be called at any moment and again. Raises `DeadlineExceeded` if no answer comes within `timeout_s`.
        """
        first = not self._muted and not self.ended
        self._mute()
        if first:
            with suppress(TalkwireError):  # a broken stream has ended this utterance already
                request = pb.ConverseRequest(utterance_id=self.id, abort=pb.Abort(played_samples=played_samples))
                await self._post(request)
        try:
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        except TimeoutError:
            raise DeadlineExceeded(f"the abort of {self.id} was not answered within {timeout_s:g} s") from None
        return self._end if isinstance(self._end, pb.Aborted) else None

    async def audio(self) -> AsyncGenerator[bytes, None]:
        """The audio as it comes, up to the end of the utterance, finished or aborted: `async for chunk in u.audio()`.

        Bytes are those of the encoding that was asked for. Other events are read over; raises the failure, or a
        refusal of something that was sent.
        """
        async for event in self:
            if isinstance(event, pb.Audio):
                yield event.data

    async def speech(self) -> Speech:
        """All that has not been read yet, put together.

        Raises the failure, a refusal of something that was sent, or `Cancelled` if it was aborted.
        """
        builder = SpeechBuilder(self.started)
        async for event in self:
            builder.add(event)
        return builder.build()

    def deliver(self, event: Event | TalkwireError) -> None:
        """Takes the next event off the wire. For the stream's reader only."""
        if isinstance(event, pb.Started):
            self.started = event
        if isinstance(event, _ENDS):
            self._end = event
            self._ended.set()
        elif self._muted or not self.replay.is_new(event):
            return
        self._arrive(event)

    def complain(self, refusal: TalkwireError) -> None:
        """Something that was sent was not taken. For the stream's reader only."""
        if not self._muted:
            self._arrive(refusal)

    def _arrive(self, event: Event | TalkwireError) -> None:
        self._events.append(event)
        self._arrived.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self.ended:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        event = self._events.popleft()
        if isinstance(event, TalkwireError):
            raise event
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.ended:
            await self.abort()

    def _check_open(self) -> None:
        if isinstance(self._end, TalkwireError):
            raise self._end
        if self._text_ended or self._muted or self.ended:
            why = "was aborted" if self._muted else "has ended" if self.ended else "takes no text after `end`"
            raise FailedPrecondition(f"utterance {self.id} {why}; start a new one")

    def _mute(self) -> None:
        """Drops what waits, but for an end event that nobody has read yet."""
        self._muted = True
        self._events = deque(event for event in self._events if event is self._end)
