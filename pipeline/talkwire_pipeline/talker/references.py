"""The talker's copies of references, by id: rows on the device, given up in the order in which they were last used."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from talkwire_pipeline.delay import DELAY
from talkwire_pipeline.errors import ResourceExhaustedError
from talkwire_pipeline.messages import Codes
from talkwire_pipeline.talker.state import TalkerState


@dataclass(slots=True)
class _Held:
    """A reference's engine ids, how many live generations have them in their prompt, and whether to keep them."""

    ids: list[int]
    users: int = 0
    dropped: bool = False


class ReferenceCache:
    """References that prompts may carry. What a live generation uses stays, whatever else happens."""

    def __init__(self, state: TalkerState) -> None:
        self._state = state
        self._held: OrderedDict[int, _Held] = OrderedDict()  # the least recently used first

    def __len__(self) -> int:
        return len(self._held)

    def put(self, reference: int, codes: Codes) -> None:
        """Keeps `codes` [T, 8] undelayed, giving up others that are not in use; a known id just stays.

        Raises `ResourceExhaustedError` if there is no room even so, `ValueError` for what are no codes.
        """
        held = self._held.get(reference)
        if held is not None:
            held.dropped = False
            self._held.move_to_end(reference)
            return
        self._make_room(len(codes) + DELAY)
        self._held[reference] = _Held(self._state.put_reference(codes))

    def _make_room(self, rows: int) -> None:
        idle = [reference for reference, held in self._held.items() if not held.users]
        room = self._state.free_bank_rows + sum(len(self._held[reference].ids) for reference in idle)
        if room < rows:  # giving up the others would not help
            raise ResourceExhaustedError(f"{rows} reference rows, but room for at most {room}")
        for reference in idle:
            if self._state.free_bank_rows >= rows:
                break
            self._free(reference)

    def use(self, reference: int) -> list[int] | None:
        """The ids to put into a prompt, in use until `release`; None if the reference is not here."""
        held = self._held.get(reference)
        if held is None or held.dropped:
            return None
        held.users += 1
        self._held.move_to_end(reference)
        return held.ids

    def release(self, reference: int) -> None:
        """Ends one `use`."""
        held = self._held[reference]
        held.users -= 1
        if held.dropped and not held.users:
            self._free(reference)

    def drop(self, reference: int) -> None:
        """Gives the reference up, once it is out of use; a no-op for an unknown one."""
        held = self._held.get(reference)
        if held is None:
            return
        held.dropped = True
        if not held.users:
            self._free(reference)

    def _free(self, reference: int) -> None:
        self._state.drop_reference(self._held.pop(reference).ids)
