"""Where a segment takes its voice from: references, and the voice of one stream. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Literal

import numpy as np

from talkwire_pipeline.geometry import FRAME_RATE_HZ
from talkwire_pipeline.messages import Codes, DropReference, Message, PutReference

Continuity = Literal["anchor", "rolling", "off"]
MIN_ANCHOR_FRAMES = FRAME_RATE_HZ
"""A stream's anchor is its first whole segment of at least so many frames: 1 s."""
MAX_SEED = 2**63 - 1
"""Seeds are drawn and derived below 2**63."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Frames that a prompt can carry: `codes` [T, 8] int16 undelayed, and what they say, if that is known."""

    id: int
    codes: Codes
    text: str | None


class ReferenceStore:
    """All references, owned by the server process; the talker keeps copies by id.

    `send` takes messages for the talker, in order.
    """

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._ids = count(1)
        self._held: dict[int, Reference] = {}
        self._sent: set[int] = set()

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, codes: Codes, text: str | None) -> Reference:
        """A new reference; `codes` are copied."""
        reference = Reference(next(self._ids), np.array(codes, dtype=np.int16), text)
        self._held[reference.id] = reference
        return reference

    def ensure(self, reference: Reference) -> None:
        """Sends the reference to the talker unless it was sent before."""
        if reference.id not in self._sent:
            self._sent.add(reference.id)
            self._send(PutReference(reference=reference.id, codes=reference.codes))

    def settle(self, reference: Reference) -> None:
        """Its use is under way. One that was dropped before, and sent for this use alone, is dropped again."""
        if reference.id not in self._held:
            self.drop(reference)

    def send_again(self, reference_id: int) -> bool:
        """The talker no longer has the reference. False: neither do we."""
        reference = self._held.get(reference_id)
        if reference is None:
            return False
        self._sent.discard(reference_id)
        self.ensure(reference)
        return True

    def forget_sent(self) -> None:
        """The talker has lost all references: each is sent again before its next use."""
        self._sent.clear()

    def drop(self, reference: Reference) -> None:
        """The reference will not be used again."""
        self._held.pop(reference.id, None)
        if reference.id in self._sent:
            self._sent.discard(reference.id)
            self._send(DropReference(reference=reference.id))


class StreamVoice:
    """The voice of one stream, kept over its segments and utterances when the caller named none.

    Its owner closes it.
    """

    def __init__(self, store: ReferenceStore, max_reference_s: float) -> None:
        self._store = store
        self._max_frames = int(max_reference_s * FRAME_RATE_HZ)
        self._anchor: Reference | None = None
        self._last: Reference | None = None
        self._closed = False

    def reference(self, continuity: Continuity) -> Reference | None:
        """What the next segment is to be spoken like."""
        return {"anchor": self._anchor, "rolling": self._last, "off": None}[continuity]

    def spoken(self, continuity: Continuity, codes: Codes, text: str) -> None:
        """A segment was spoken to its own end: `codes` [T, 8] say `text`."""
        if self._closed or continuity == "off" or len(codes) < MIN_ANCHOR_FRAMES:
            return
        if continuity == "anchor" and self._anchor is None:
            self._anchor = self._keep(codes, text)
        elif continuity == "rolling":
            if self._last is not None:
                self._store.drop(self._last)
            self._last = self._keep(codes, text)

    def _keep(self, codes: Codes, text: str) -> Reference:
        """The whole, or its tail without words if it is longer than a reference may be."""
        whole = len(codes) <= self._max_frames
        return self._store.hold(codes if whole else codes[-self._max_frames :], text if whole else None)

    def close(self) -> None:
        """Drops the stream's references; idempotent."""
        self._closed = True
        for reference in (self._anchor, self._last):
            if reference is not None:
                self._store.drop(reference)
        self._anchor = self._last = None


def segment_seed(seed: int, segment: int) -> int:
    """The seed that segment number `segment` of an utterance draws with, 0 to 2**63 - 1."""
    digest = hashlib.blake2b(f"{seed}/{segment}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") & MAX_SEED
