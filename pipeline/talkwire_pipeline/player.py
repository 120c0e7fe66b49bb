"""A model of the caller's player and of what it has yet to take. Pure; times are `monotonic_ns`."""

from __future__ import annotations

from dataclasses import dataclass

from talkwire_pipeline.geometry import SAMPLE_RATE_HZ

_NS_PER_S = 1_000_000_000


def samples_ns(samples: int) -> int:
    """How long so many samples play, in nanoseconds."""
    return samples * _NS_PER_S // SAMPLE_RATE_HZ


@dataclass
class Player:
    """Plays what was taken without a buffer of its own: starts with the first sample, waits when it runs dry.

    Attributes:
        received: samples that came from the codec.
        taken: samples that the caller has taken.
        dry_at_ns: when the taken ones will have been played; 0 before the first.
    """

    received: int = 0
    taken: int = 0
    dry_at_ns: int = 0

    @property
    def outstanding(self) -> int:
        """Samples that came and were not taken."""
        return self.received - self.taken

    def take(self, samples: int, now_ns: int) -> None:
        """The caller takes `samples` now."""
        self.taken += samples
        self.dry_at_ns = max(self.dry_at_ns, now_ns) + samples_ns(samples)

    def late_ns(self, now_ns: int, asked_ns: int) -> int:
        """How long it has had nothing to play, if the next audio was asked for before it ran dry; else 0.

        Who asks later, as a caller whose next words come late, has made the pause.
        """
        if not asked_ns < self.dry_at_ns < now_ns or self.outstanding:
            return 0
        return now_ns - self.dry_at_ns

    def dry_ns(self, now_ns: int, coming: int = 0) -> int:
        """When it runs dry if the outstanding and the `coming` samples reach it in time; 0: nothing to play."""
        ahead = self.outstanding + coming
        if self.dry_at_ns <= now_ns and ahead == 0:
            return 0
        return max(self.dry_at_ns, now_ns) + samples_ns(ahead)
