"""Speaks one text and measures it from where the listener sits."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass
from typing import Unpack

from talkwire.audio import SAMPLE_BYTES, Event, Speech, SpeechBuilder
from talkwire.options import Options
from talkwire.playback import Arrival, longest_underrun_s
from talkwire.sinks import Sink
from talkwire.stream import Stream
from talkwire.v1 import speech_pb2 as pb

Clock = Callable[[], float]
"""Seconds, from any beginning."""


@dataclass(frozen=True, slots=True)
class Heard:
    """An utterance and how it came. Times in seconds on the client's clock, network included."""

    speech: Speech
    ttfa_s: float
    """First text out to first audio in; 0 where there was no audio."""
    first_payload_s: float
    """Duration of the first audio event."""
    elapsed_s: float
    """First text out to end event."""
    underrun_s: float
    """Longest silence of a player with no extra buffer."""

    @property
    def real_time_factor(self) -> float:
        """Seconds it took for each second of audio; 0 where there was no audio."""
        return self.elapsed_s / self.speech.duration_s if self.speech.audio else 0.0


async def listen(
    events: AsyncIterable[Event], began_s: float, clock: Clock = time.perf_counter, sink: Sink | None = None
) -> Heard:
    """Reads an utterance to its end, handing its audio to `sink` as it comes. Raises its failure.

    `began_s` is when its first text went out.
    """
    builder, rate_hz = SpeechBuilder(), 1
    arrivals: list[Arrival] = []
    async for event in events:
        builder.add(event)
        if isinstance(event, pb.Started):
            rate_hz = event.sample_rate_hz
            if sink is not None:
                sink.begin(rate_hz)
        elif isinstance(event, pb.Audio):
            arrivals.append(Arrival(clock(), len(event.data) / (SAMPLE_BYTES * rate_hz)))
            if sink is not None:
                await sink.write(event.data)
    return Heard(
        speech=builder.build(),
        ttfa_s=arrivals[0].at_s - began_s if arrivals else 0.0,
        first_payload_s=arrivals[0].duration_s if arrivals else 0.0,
        elapsed_s=clock() - began_s,
        underrun_s=longest_underrun_s(arrivals),
    )


async def say(stream: Stream, text: str, **options: Unpack[Options]) -> Heard:
    """Speaks a whole text on a stream and listens to it. Raises its failure."""
    async with stream.utterance(**options) as utterance:
        began_s = time.perf_counter()
        await utterance.push(text)
        await utterance.end()
        return await listen(utterance, began_s)
