"""One generation as the server process sees it: a segment between the queue and its last audio."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from talkwire_pipeline.geometry import SAMPLES_PER_FRAME
from talkwire_pipeline.messages import StageName
from talkwire_pipeline.text.normalize.spans import Normalized
from talkwire_pipeline.text.segmenter import Segment

if TYPE_CHECKING:
    from talkwire_pipeline.utterance import Utterance
    from talkwire_pipeline.voice import Reference

WAITED_NS = 1_000_000
"""More than it takes to find a free slot."""
_NOTHING = Normalized("", ())
STAGES: tuple[StageName, StageName] = ("talker", "codec")
"""Both stages."""


@dataclass(eq=False)
class Generation:
    """A segment on its way; it waits in the dispatcher, then the pipeline routes the stages' messages to it by `id`.

    Attributes:
        utterance: whose it is.
        segment: what is spoken.
        id: number of the generation; 0 until it is opened.
        body: what the model reads, and where it came from; empty until it is opened.
        audio: chunks that came and wait for earlier segments: [S] float32 each.
        received: samples that came.
        taken: samples that the caller took.
        samples: how many the whole segment takes; None until the talker is done.
        codec_over: whether all its audio came.
        holds_slot: whether a slot of the talker is counted for it.
        unreleased: stages that were told to abort and have not answered.
        released: set when none is left.
        queued_ns: when it began to wait for a slot, by `monotonic_ns`.
        opened_ns: when it got one, the last time.
        place: its number among those of its utterance that were opened, and what it is spoken like; None until then.
    """

    utterance: Utterance
    segment: Segment
    id: int = 0
    body: Normalized = _NOTHING
    audio: deque[npt.NDArray[np.float32]] = field(default_factory=deque)
    received: int = 0
    taken: int = 0
    samples: int | None = None
    codec_over: bool = False
    holds_slot: bool = False
    unreleased: set[StageName] = field(default_factory=set)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    queued_ns: int = field(default_factory=time.monotonic_ns)
    opened_ns: int = 0
    place: tuple[int, Reference | None] | None = None

    @property
    def over(self) -> bool:
        """Whether both stages are done with it."""
        return self.samples is not None and self.codec_over

    @property
    def begins(self) -> bool:
        """Whether somebody waits for its first audio: the first of an utterance that is listened to."""
        return self.place is not None and self.place[0] == 0 and self.priority == 0

    @property
    def since_opened_s(self) -> float:
        """How long ago it got a slot."""
        return (time.monotonic_ns() - self.opened_ns) / 1e9

    @property
    def coming(self) -> int:
        """Samples that are known to come and have not."""
        return 0 if self.samples is None else self.samples - self.received

    @property
    def waited(self) -> bool:
        """Whether it has had to wait for a slot. Who had not is never too late by the pace of others."""
        return time.monotonic_ns() - self.queued_ns > WAITED_NS

    def fresh(self, samples: npt.NDArray[np.float32], first_sample: int) -> npt.NDArray[np.float32]:
        """What of a chunk had not come before: one that gave way is made again from its beginning."""
        return samples[max(self.received - first_sample, 0) :]

    def give_way(self) -> None:
        """No stage holds it any more, and it is to be opened again."""
        self.id = 0
        self.holds_slot = False

    def set_frames(self, frames: int) -> None:
        """The talker made so many frames."""
        self.samples = frames * SAMPLES_PER_FRAME

    # ---- what the dispatcher asks

    @property
    def priority(self) -> int:
        """Smaller goes first."""
        return self.utterance.request.priority

    @property
    def running(self) -> bool:
        """Whether its utterance has opened a segment before."""
        return self.utterance.running

    def dry_ns(self) -> int:
        """When the utterance's player runs dry without it."""
        return self.utterance.dry_ns()

    def start(self) -> bool:
        """Opens it."""
        return self.utterance.open_generation(self)
