"""The talker's loop: commands in, steps of the runner, rows and ends out. The same for every runner.

It knows no ring and no process: it is handed messages and sends through two callables, which never refuse (their
owner does not call `step` while a ring is full).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

import numpy as np

from talkwire_pipeline.delay import undelay
from talkwire_pipeline.geometry import CODEBOOKS
from talkwire_pipeline.histogram import COUNTS, SECONDS, Histogram
from talkwire_pipeline.messages import (
    Abort,
    Begin,
    DropReference,
    End,
    EndReason,
    Failed,
    Message,
    Open,
    Peer,
    PutReference,
    Refused,
    Released,
    Rows,
    Stop,
    TalkerDone,
)
from talkwire_pipeline.talker.parameters import GenerationSpec
from talkwire_pipeline.talker.prompt import check_open, engine_prompt
from talkwire_pipeline.talker.references import ReferenceCache
from talkwire_pipeline.talker.repeats import CHECK_ROWS, is_repeating
from talkwire_pipeline.talker.runner import Runner
from talkwire_pipeline.talker.state import RowBatch, TalkerState

_log = logging.getLogger(__name__)

Send = Callable[[Message], None]
MAX_FAULTS = 3
"""Steps that may fail one after the other before the fault is taken for the process's own."""


@dataclass(slots=True)
class _Generation:
    """A live generation.

    Attributes:
        begin: what tells the codec of it; sent before its first rows.
        first_row_ns: when that was; 0: not yet.
        holds: gives back all that it holds (slot, place in the runner, reference).
    """

    begin: Begin
    slot: int
    holds: ExitStack
    first_row_ns: int = 0


class _RefusedError(Exception):
    """An `Open` that cannot be served as things are."""

    def __init__(self, reason: Literal["reference", "full", "length"], detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class TalkerLoop:
    """Owns the slots, the runner and what leaves the talker.

    Args:
        state: the state that `runner` samples with.
        runner: steps the backbone.
        audio_token: the tokenizer's id of `<|audio|>`, with which every prompt ends.
        max_model_len: ids plus rows of the longest generation.
        to_codec: sends a message to the codec.
        to_server: sends a message to the server.
        now_ns: a monotonic clock.
    """

    def __init__(
        self,
        state: TalkerState,
        runner: Runner,
        *,
        audio_token: int,
        max_model_len: int,
        to_codec: Send,
        to_server: Send,
        now_ns: Callable[[], int],
    ) -> None:
        self._state = state
        self._runner = runner
        self._references = ReferenceCache(state)
        self._audio_token = audio_token
        self._max_model_len = max_model_len
        self._to_codec = to_codec
        self._to_server = to_server
        self._now_ns = now_ns
        self._live: dict[int, _Generation] = {}
        slots = state.ids.slots
        self._numbers = np.zeros(slots, dtype=np.uint64)  # the generation in each slot
        self._max_rows = np.zeros(slots, dtype=np.int64)
        self._rows = np.zeros((slots, max_model_len, CODEBOOKS), dtype=np.int16)
        self._faults = 0
        self._totals = dict.fromkeys(("generations", "rows", "steps", "faults"), 0.0)
        self._step_s = Histogram("step_seconds", SECONDS)
        self._step_slots = Histogram("step_slots", COUNTS)
        self.stopped = False
        """Whether `Stop` came."""

    # ---- commands

    def handle(self, message: Message) -> None:
        """Does what a message asks for; raises `TypeError` for one that is not for this loop."""
        match message:
            case Open():
                self._open(message)
            case PutReference():
                self._put_reference(message)
            case DropReference():
                self._references.drop(message.reference)
            case Abort():
                self._abort(message.generation)
            case Peer():
                if message.stage == "codec" and not message.up:
                    self._free_all()
            case Stop():
                self._free_all()
                self._runner.close()
                self.stopped = True
            case _:
                raise TypeError(f"the talker's loop takes no {type(message).__name__}")

    def _open(self, message: Open) -> None:
        number = message.generation
        try:
            check_open(message, self._state.ids, self._audio_token)
            self._admit(message)
        except _RefusedError as refusal:
            self._to_server(Refused(generation=number, reason=refusal.reason, detail=refusal.detail))
        except Exception as error:
            _log.exception("generation %d could not be opened", number)
            self._to_server(Failed(generation=number, detail=repr(error)))

    def _admit(self, message: Open) -> None:
        """Makes the generation live; holds nothing of it if that fails."""
        if not self._state.free_slots:
            raise _RefusedError("full", f"all {self._state.ids.slots - 1} slots are taken")
        with ExitStack() as holds:
            inserted = self._use_reference(message.reference, holds)
            length = len(message.prompt) + len(inserted)
            if length + message.max_rows > self._max_model_len:
                detail = f"a prompt of {length} ids and {message.max_rows} rows, of {self._max_model_len} positions"
                raise _RefusedError("length", detail)
            slot = self._state.open(GenerationSpec(length, message.sampling))
            holds.callback(self._state.close, slot)
            holds.callback(self._runner.abort, slot)  # first of all when it ends: later steps must not touch the slot
            prompt = engine_prompt(message, self._state.ids, inserted, self._state.step_id(slot))
            self._runner.add(slot, prompt, message.max_rows)
            self._live[message.generation] = _Generation(_begin(message), slot, holds.pop_all())
        self._numbers[slot] = message.generation
        self._max_rows[slot] = message.max_rows
        self._totals["generations"] += 1

    def _use_reference(self, reference: int, holds: ExitStack) -> list[int]:
        """The engine ids of a reference (0: none), in use as long as `holds`."""
        if not reference:
            return []
        ids = self._references.use(reference)
        if ids is None:
            free = self._state.free_bank_rows
            raise _RefusedError("reference", f"reference {reference} is not held; {free} rows are free")
        holds.callback(self._references.release, reference)
        return ids

    def _put_reference(self, message: PutReference) -> None:
        try:
            self._references.put(message.reference, message.codes)
        except Exception:
            # Whoever names it will be refused; that is where it can be answered.
            _log.exception("reference %d could not be kept", message.reference)

    def _abort(self, number: int) -> None:
        generation = self._live.get(number)
        if generation is not None:
            self._free(generation)
            self._end(generation, "abort")
        self._to_server(Released(generation=number))

    # ---- steps

    def step(self) -> bool:
        """One step of all generations, and what comes of it; False if there was nothing to do.

        A step that fails ends all generations; only if several do, one after the other, is the error raised.
        """
        began_ns = self._now_ns()
        try:
            worked = self._runner.step()
            batch = self._state.drain()
        except Exception as error:
            self._fault(error)
            return True
        if worked:
            self._faults = 0
            self._totals["steps"] += 1
            self._step_s.observe((self._now_ns() - began_ns) / 1e9)
            self._step_slots.observe(len(self._live))
        self._pass_on(batch)
        return worked or self._state.pending

    def _fault(self, error: Exception) -> None:
        self._faults += 1
        self._totals["faults"] += 1
        if self._faults >= MAX_FAULTS:
            raise error
        _log.error("a step failed; %d generations end", len(self._live), exc_info=error)
        for generation in list(self._live.values()):
            self._free(generation)
            self._end(generation, "abort")
            self._to_server(Failed(generation=generation.begin.generation, detail=repr(error)))

    def _pass_on(self, batch: RowBatch) -> None:
        """Rows to the codec; then the ends of those that they were the last of."""
        room = batch.steps < self._max_rows[batch.slots]  # a runner that works ahead may have gone beyond the cap
        slots, steps, codes, last = batch.slots[room], batch.steps[room], batch.codes[room], batch.last[room]
        if not len(slots):
            return
        numbers = self._numbers[slots]
        for number in numbers[steps == 0].tolist():
            generation = self._live[number]
            generation.first_row_ns = self._now_ns()
            self._to_codec(generation.begin)
        self._rows[slots, steps] = codes
        self._to_codec(Rows(generations=numbers, codes=codes))
        self._totals["rows"] += len(slots)
        ended = last | (steps + 1 == self._max_rows[slots])
        for number, rows, eos in zip(numbers[ended].tolist(), (steps[ended] + 1).tolist(), last[ended], strict=True):
            self._finish(self._live[number], rows, "eos" if eos else "cap")
        due = ~ended & ((steps + 1) % CHECK_ROWS == 0)
        for number, rows in zip(numbers[due].tolist(), (steps[due] + 1).tolist(), strict=True):
            self._end_circles(number, rows)

    def _end_circles(self, number: int, rows: int) -> None:
        generation = self._live.get(number)
        if generation is not None and is_repeating(self._rows[generation.slot, :rows]):
            self._finish(generation, rows, "loop")

    def _finish(self, generation: _Generation, rows: int, reason: EndReason) -> None:
        self._free(generation)
        self._end(generation, reason)
        codes = undelay(self._rows[generation.slot, :rows])
        number = generation.begin.generation
        first_ns = generation.first_row_ns
        self._to_server(TalkerDone(generation=number, reason=reason, rows=rows, first_row_ns=first_ns, codes=codes))

    def _end(self, generation: _Generation, reason: EndReason) -> None:
        if generation.first_row_ns:
            self._to_codec(End(generation=generation.begin.generation, reason=reason))

    # ---- both

    def _free(self, generation: _Generation) -> None:
        del self._live[generation.begin.generation]
        try:
            generation.holds.close()
        except Exception:  # of the runner; slot and reference are given back all the same
            _log.exception("the runner did not leave slot %d", generation.slot)

    def _free_all(self) -> None:
        for generation in list(self._live.values()):
            self._free(generation)

    def stats(self) -> dict[str, float]:
        """What is held now, and totals since the start; units are in the names."""
        return {
            "live_generations": len(self._live),
            "free_slots": self._state.free_slots,
            "references": len(self._references),
            "free_reference_rows": self._state.free_bank_rows,
            **{f"{name}_total": value for name, value in self._totals.items()},
            **self._step_s.stats(),
            **self._step_slots.stats(),
            **self._runner.stats(),
        }


def _begin(message: Open) -> Begin:
    return Begin(
        generation=message.generation,
        geometry=message.geometry,
        credit_samples=message.credit_samples,
        dry_ns=message.dry_ns,
        max_rows=message.max_rows,
    )
