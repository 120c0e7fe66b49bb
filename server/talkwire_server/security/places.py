"""How many streams a connection and a key may have open at the same time. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from talkwire_pipeline.errors import ResourceExhaustedError

RETRY_AFTER_S = 1.0


class Places:
    """Counts streams while they are open; None: no limit."""

    def __init__(self, per_connection: int | None, per_key: int | None) -> None:
        self._per_connection = per_connection
        self._per_key = per_key
        self._taken: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def taken(self, connection: str, key: str) -> Iterator[None]:
        """Holds the places of one stream: one of its connection, and one of its caller's key, if it has a name.

        Raises `ResourceExhaustedError` where one of them has none left.
        """
        self._check("connection", connection, self._per_connection)
        self._check("key", key, self._per_key)
        held = [("connection", connection), ("key", key)]
        self._taken.update(held)
        try:
            yield
        finally:
            self._taken.subtract(held)
            for each in held:
                if not self._taken[each]:
                    del self._taken[each]

    def __len__(self) -> int:
        """Of how many connections and keys something is open."""
        return len(self._taken)

    def _check(self, kind: str, name: str, limit: int | None) -> None:
        open_now = self._taken[kind, name]
        if limit is None or not name or open_now < limit:
            return
        text = (
            f"the {kind} has {open_now} streams open, all that server.max_streams_per_{kind} allows: "
            "end one, or speak several utterances on one Converse"
        )
        raise ResourceExhaustedError(text, reason=f"{kind.upper()}_STREAMS", retry_after_s=RETRY_AFTER_S)
