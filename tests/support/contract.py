"""What a caller of `Converse` may rely on, checked event by event, whatever it sent and whenever (docs/converse.md)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from talkwire.v1 import speech_pb2 as pb

ENDS = ("finished", "aborted", "failed")
OF_THE_LIVE = ("UTTERANCE_ID_IN_USE", "TEXT_AFTER_END", "FLUSH_AFTER_END")
"""Reasons of errors that a live utterance alone can have: its `started` came before."""


@dataclass
class Life:
    """One accepted utterance; `began` is the place of its `start` among its id's requests."""

    began: int
    samples: int = 0
    pieces: int = 0
    timed_to: int = 0
    flushed: int = 0
    muted: bool = False


@dataclass
class Requests:
    """What was sent for one id, in order, and which of its starts were answered."""

    sent: list[tuple[str, str]] = field(default_factory=list)
    starts_answered: int = 0

    def answer_start(self) -> int:
        """The place of the next start that has no answer."""
        starts = [place for place, (name, _) in enumerate(self.sent) if name == "start"]
        assert self.starts_answered < len(starts), "a start was answered twice"
        self.starts_answered += 1
        return starts[self.starts_answered - 1]

    def of(self, life: Life) -> list[tuple[str, str]]:
        """What the life was told before the end of its text."""
        told = self.sent[life.began :]
        over = (place for place, (name, _) in enumerate(told) if name in ("end", "abort"))
        return told[: next(over, len(told))]


class Contract:
    """Told what is sent (`send`) and what comes (`hear`); every breach fails an assertion."""

    def __init__(self) -> None:
        self._requests: defaultdict[str, Requests] = defaultdict(Requests)
        self._live: dict[str, Life] = {}
        self._errors: defaultdict[str, int] = defaultdict(int)

    def send(self, utterance_id: str, name: str, text: str = "") -> None:
        """An event goes out."""
        self._requests[utterance_id].sent.append((name, text))

    def mute(self, utterance_id: str) -> None:
        """The server is known to have read an abort of this live utterance."""
        if life := self._live.get(utterance_id):
            life.muted = True

    def hear(self, utterance_id: str, name: str, payload: Any, reason: str = "") -> None:
        """An event came: `payload` is its message, `reason` that of an error."""
        if name == "error":
            self._hear_error(utterance_id, reason)
        elif name == "started":
            assert utterance_id not in self._live
            self._live[utterance_id] = Life(self._requests[utterance_id].answer_start())
        elif utterance_id not in self._live:
            assert name == "failed", f"{name} of {utterance_id!r}, which is not live"
            self._requests[utterance_id].answer_start()
        else:
            self._hear_of(utterance_id, self._live[utterance_id], name, payload)

    def _hear_error(self, utterance_id: str, reason: str) -> None:
        self._errors[utterance_id] += 1
        assert self._errors[utterance_id] <= len(self._requests[utterance_id].sent)
        assert utterance_id in self._live or reason not in OF_THE_LIVE
        if reason == "UTTERANCE_ID_IN_USE":
            self._requests[utterance_id].answer_start()

    def _hear_of(self, utterance_id: str, life: Life, name: str, payload: Any) -> None:
        assert not life.muted or name in ENDS, f"{name} of {utterance_id!r} after its abort was read"
        if check := getattr(self, f"_hear_{name}", None):
            check(life, payload, self._requests[utterance_id].of(life))
        if name in ENDS:
            del self._live[utterance_id]

    def _hear_audio(self, life: Life, event: pb.Audio, _: Any) -> None:
        assert (event.first_sample, event.sequence) == (life.samples, life.pieces)
        life.samples += len(event.data) // 2
        life.pieces += 1

    def _hear_timing(self, life: Life, event: pb.Timing, _: Any) -> None:
        segment = event.spans[0]
        assert segment.kind == pb.SPAN_KIND_SEGMENT
        assert segment.start_sample == life.timed_to <= segment.end_sample
        life.timed_to = segment.end_sample
        for word in event.spans[1:]:
            assert segment.start_sample <= word.start_sample <= word.end_sample <= segment.end_sample

    def _hear_flushed(self, life: Life, event: pb.Flushed, told: list[tuple[str, str]]) -> None:
        life.flushed += 1
        assert life.flushed <= sum(name == "flush" for name, _ in told)
        assert event.end_sample == life.samples

    def _hear_finished(self, life: Life, event: pb.Finished, told: list[tuple[str, str]]) -> None:
        assert life.flushed == sum(name == "flush" for name, _ in told)
        assert event.statistics.sample_count == life.samples == life.timed_to > 0

    def _hear_aborted(self, life: Life, event: pb.Aborted, told: list[tuple[str, str]]) -> None:
        texts = [text for name, text in told if name == "text"]
        assert event.spoken_text + event.unspoken_text in accumulate(["", *texts])
        assert event.generated_samples >= life.samples

    def over(self) -> None:
        """The stream has ended: so has every utterance, and every start was answered."""
        assert not self._live
        for utterance_id, requests in self._requests.items():
            starts = sum(name == "start" for name, _ in requests.sent)
            assert requests.starts_answered == starts, f"a start of {utterance_id!r} has no answer"
