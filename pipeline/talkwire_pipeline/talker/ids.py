"""Engine ids: the one id space that prompts and steps are written in, whatever runs the backbone. Pure.

A step id says whose row to embed (the slot) and a fingerprint of the row's codes; the position says which row.
So a runner needs nothing but ids and positions, and its prefix cache, which hashes ids, follows content.
"""

from __future__ import annotations

from dataclasses import dataclass

STOP = 0
"""The id that ends a generation: slot 0 with fingerprint 0. Slot 0 is never given out."""


@dataclass(frozen=True, slots=True)
class IdSpace:
    """Where each kind of id lies.

    `[0, steps)` step ids, `fingerprint * slots + slot`; `[steps, bank_base)` text ids, shifted by `steps`;
    `[bank_base, size)` reference rows, `bank_base + fingerprint * bank_rows + row`.

    Attributes:
        slots: generations at the same time, plus one for slot 0.
        text_vocabulary: ids of the tokenizer.
        bank_rows: reference rows that the device keeps.
        step_fingerprints: values that a step's fingerprint takes.
        bank_fingerprints: values that a reference row's fingerprint takes.
    """

    slots: int
    text_vocabulary: int
    bank_rows: int
    step_fingerprints: int = 64
    bank_fingerprints: int = 16

    @property
    def steps(self) -> int:
        """Number of step ids; also the shift of text ids."""
        return self.slots * self.step_fingerprints

    @property
    def bank_base(self) -> int:
        """The first reference id."""
        return self.steps + self.text_vocabulary

    @property
    def size(self) -> int:
        """Number of ids: the vocabulary that a runner declares."""
        return self.bank_base + self.bank_rows * self.bank_fingerprints
