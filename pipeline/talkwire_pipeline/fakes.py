"""Stages without processes: a talker and a codec that speak the same messages, for tests of what is in front of them.

Everything follows from the messages: the tone and the codes from prompt and seed, the length from the prompt. No
threads, no clock: each turn of the event loop moves every generation on by one chunk, as far as its credit goes.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from talkwire_pipeline.errors import TalkwireError
from talkwire_pipeline.geometry import CODEBOOKS, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME
from talkwire_pipeline.messages import (
    Abort,
    Audio,
    CodecDone,
    Codes,
    Credit,
    DropReference,
    EndReason,
    Failed,
    Message,
    Open,
    PutReference,
    Refused,
    Released,
    StageName,
    TalkerDone,
)
from talkwire_pipeline.stages import OnMessage, OnState, StageHealth, StageState

DELAY_ROWS = CODEBOOKS - 1
"""Rows that a generation has more than frames."""
STAGES: tuple[StageName, StageName] = ("talker", "codec")


def frames_of(prompt: npt.NDArray[np.int32]) -> int:
    """Frames that the fake talker makes of a prompt by default: two for each id."""
    return 2 * len(prompt)


@dataclass(frozen=True, slots=True)
class FakeVoice:
    """What one prompt and seed sound like: a sine of 200 to 1,000 Hz, and codes to go with it."""

    digest: int

    @classmethod
    def of(cls, prompt: npt.NDArray[np.int32], seed: int) -> FakeVoice:
        """The voice of a prompt [n] int32 and a seed."""
        content = np.ascontiguousarray(prompt, np.int32).tobytes() + seed.to_bytes(8, "little")
        return cls(int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little"))

    @property
    def frequency_hz(self) -> float:
        """The sine's frequency."""
        return 200.0 + self.digest % 8000 / 10

    def samples(self, first: int, count: int) -> npt.NDArray[np.float32]:
        """`count` samples from position `first` on: [count] float32."""
        phase = np.arange(first, first + count) * (2 * np.pi * self.frequency_hz / SAMPLE_RATE_HZ)
        wave: npt.NDArray[np.float64] = np.sin(phase)
        return (0.3 * wave).astype(np.float32)

    def codes(self, frames: int) -> Codes:
        """[frames, 8] int16, each 0 to 1023."""
        return np.random.default_rng(self.digest).integers(0, 1024, (frames, CODEBOOKS), dtype=np.int16)


@dataclass(slots=True)
class _Generation:
    """One generation in both fake stages.

    Of its `frames`, `ready` have reached the codec and `decoded` have gone out.
    """

    opened: Open
    voice: FakeVoice
    rows: int
    reason: EndReason
    fails_in: StageName | None
    credit: int
    moves: int = 0
    ready: int = 0
    decoded: int = 0
    in_talker: bool = True
    in_codec: bool = True

    @property
    def frames(self) -> int:
        return max(0, self.rows - DELAY_ROWS)

    @property
    def samples(self) -> int:
        return self.decoded * SAMPLES_PER_FRAME

    @property
    def chunk_frames(self) -> int:
        shape = self.opened.geometry
        return shape.initial if self.decoded == 0 else shape.steady


class FakeStages:
    """`Stages` in process.

    Attributes:
        received: every message that was sent, with the stage it was sent to.
        slots: generations that the talker takes at a time; more are refused (`full`).
        max_model_len: a prompt and cap that exceed it are refused (`length`).
        frames: frames that a prompt becomes; the cap may cut them.
        pace_s: time between two moves; 0: the next turn of the loop.
        start_error: raised by `start`.
    """

    def __init__(
        self,
        *,
        slots: int = 8,
        max_model_len: int = 2048,
        frames: Callable[[npt.NDArray[np.int32]], int] = frames_of,
        pace_s: float = 0.0,
        start_error: TalkwireError | None = None,
    ) -> None:
        self.slots = slots
        self.max_model_len = max_model_len
        self.frames = frames
        self.pace_s = pace_s
        self.start_error = start_error
        self.received: list[tuple[StageName, Message]] = []
        self.work_due = False
        self._generations: dict[int, _Generation] = {}
        self._references: set[int] = set()
        self._failures: list[StageName] = []
        self._states: dict[StageName, StageState] = dict.fromkeys(STAGES, "down")
        self._faults: dict[StageName, str] = dict.fromkeys(STAGES, "")
        self._lives: dict[StageName, int] = dict.fromkeys(STAGES, 0)
        self._held = False
        self._move: asyncio.Handle | None = None

    # ---- what `Stages` has

    async def start(self, on_message: OnMessage, on_state: OnState) -> None:
        """Both are ready at once; raises `start_error` if there is one."""
        self._on_message, self._on_state = on_message, on_state
        self._loop = asyncio.get_running_loop()
        if self.start_error is not None:
            raise self.start_error
        for stage in STAGES:
            self.recover(stage)

    def send(self, stage: StageName, message: Message) -> None:
        """Acts on the message now; answers come in later turns of the loop."""
        self.received.append((stage, message))
        if self._states[stage] == "ready":
            {"talker": self._tell_talker, "codec": self._tell_codec}[stage](message)
            self._wake()

    def watch(self, work_due: bool) -> None:
        """Kept in `work_due`."""
        self.work_due = work_due

    def state(self, stage: StageName) -> StageState:
        """The stage's state."""
        return self._states[stage]

    def fault(self, stage: StageName) -> str:
        """What the last `crash` said."""
        return self._faults[stage]

    def facts(self, stage: StageName) -> dict[str, Any]:
        """As a real stage's; the device is `fake`."""
        return {"pid": 0, "device": "fake", "dtype": "float32", "parameters": 0, "slots": self.slots, "versions": {}}

    def stats(self, stage: StageName) -> dict[str, float]:
        """`live_generations`: how many the stage holds."""
        return {"live_generations": float(self.held(stage))}

    def health(self, stage: StageName) -> StageHealth:
        """As a real stage's, without a process."""
        return StageHealth(restarts=self._lives[stage])

    async def close(self) -> None:
        """Drops everything."""
        self._generations.clear()
        if self._move is not None:
            self._move.cancel()
            self._move = None
        for stage in STAGES:
            self._lives[stage] += 1
            self._states[stage] = "down"

    # ---- what tests need

    @property
    def live(self) -> int:
        """Generations that either stage holds."""
        return len(self._generations)

    def held(self, stage: StageName) -> int:
        """Generations that the stage holds."""
        every = self._generations.values()
        return sum(each.in_talker if stage == "talker" else each.in_codec for each in every)

    @property
    def references(self) -> frozenset[int]:
        """Ids of the references that the talker has."""
        return frozenset(self._references)

    def sent(self, kind: type[Message], stage: StageName | None = None) -> list[Message]:
        """The messages of one kind that were sent, to one stage or to either."""
        return [message for to, message in self.received if isinstance(message, kind) and stage in (None, to)]

    def hold(self) -> None:
        """No generation moves on until `release`. Commands are answered all the same."""
        self._held = True

    def release(self) -> None:
        """Ends `hold`."""
        self._held = False
        self._wake()

    def fail_next(self, stage: StageName = "talker") -> None:
        """The next generation that is opened breaks in that stage, after its first chunk."""
        self._failures.append(stage)

    def forget_references(self) -> None:
        """The talker drops all references, as it may when its memory is full."""
        self._references.clear()

    def crash(self, stage: StageName, fault: str = "killed by a test") -> None:
        """The stage dies with all that it holds and has not said; the other one frees its generations."""
        self._faults[stage] = fault
        self._lives[stage] += 1
        self._generations.clear()
        if stage == "talker":
            self._references.clear()
        self._enter(stage, "down")

    def recover(self, stage: StageName) -> None:
        """The stage is started anew."""
        self._enter(stage, "starting")
        self._enter(stage, "ready")

    # ---- the talker

    def _tell_talker(self, message: Message) -> None:
        match message:
            case Open():
                self._open(message)
            case PutReference(reference=reference):
                self._references.add(reference)
            case DropReference(reference=reference):
                self._references.discard(reference)
            case Abort(generation=generation):
                self._end(generation)
                self._say("talker", Released(generation=generation))

    def _open(self, message: Open) -> None:
        refused = self._refusal(message)
        if refused is not None:
            self._say("talker", refused)
            return
        wanted = self.frames(message.prompt) + DELAY_ROWS
        rows = min(wanted, message.max_rows)
        self._generations[message.generation] = _Generation(
            opened=message,
            voice=FakeVoice.of(message.prompt, message.sampling.seed),
            rows=rows,
            reason="cap" if wanted > rows else "eos",
            fails_in=self._failures.pop(0) if self._failures else None,
            credit=message.credit_samples,
        )

    def _refusal(self, message: Open) -> Refused | None:
        if message.reference and message.reference not in self._references:
            return Refused(generation=message.generation, reason="reference")
        if self.held("talker") >= self.slots:
            return Refused(generation=message.generation, reason="full")
        if len(message.prompt) + message.max_rows > self.max_model_len:
            return Refused(generation=message.generation, reason="length")
        return None

    # ---- the codec

    def _tell_codec(self, message: Message) -> None:
        generation = self._generations.get(message.generation)
        match message:
            case Credit(samples=samples) if generation is not None:
                generation.credit += samples
            case Abort():
                held = generation is not None and generation.in_codec
                samples = generation.samples if generation is not None and held else 0
                self._leave(message.generation, "codec")
                self._say("codec", Released(generation=message.generation, samples=samples))

    # ---- progress

    def _wake(self) -> None:
        if self._move is None and not self._held and self._generations:
            self._move = self._loop.call_later(self.pace_s, self._advance)

    def _advance(self) -> None:
        self._move = None
        if self._held:
            return
        moved = [self._advance_one(number, each) for number, each in list(self._generations.items())]
        if any(moved):
            self._wake()

    def _advance_one(self, number: int, generation: _Generation) -> bool:
        """One chunk's rows from the talker, one chunk from the codec. False: it waits for credit, or for an abort."""
        generation.moves += 1
        if generation.moves == 2 and generation.fails_in is not None:
            self._say(generation.fails_in, Failed(generation=number, detail="a test made it fail"))
            self._end(number) if generation.fails_in == "talker" else self._leave(number, "codec")
        talked = generation.in_talker and self._talk(number, generation)
        decoded = generation.in_codec and self._decode(number, generation)
        return talked or decoded

    def _talk(self, number: int, generation: _Generation) -> bool:
        generation.ready = min(generation.frames, generation.ready + generation.chunk_frames)
        if generation.ready == generation.frames and generation.fails_in != "talker":
            codes = generation.voice.codes(generation.frames)
            done = TalkerDone(
                generation=number, reason=generation.reason, rows=generation.rows, first_row_ns=1, codes=codes
            )
            self._leave(number, "talker")
            self._say("talker", done)
        return True

    def _decode(self, number: int, generation: _Generation) -> bool:
        """A chunk goes out while any credit is left, so it may overdraw it once."""
        count = min(generation.ready - generation.decoded, generation.chunk_frames)
        decodes = count > 0 and generation.samples < generation.credit
        if decodes:
            samples = generation.voice.samples(generation.samples, count * SAMPLES_PER_FRAME)
            self._say("codec", Audio(generation=number, first_sample=generation.samples, samples=samples))
            generation.decoded += count
        if generation.decoded == generation.frames and generation.fails_in is None:
            self._leave(number, "codec")
            self._say("codec", CodecDone(generation=number, samples=generation.samples, reason=generation.reason))
        return decodes

    def _end(self, number: int) -> None:
        """The talker ends a generation before its time; the codec, which hears of it, drops it too."""
        generation = self._generations.get(number)
        if generation is not None and generation.in_talker:
            self._leave(number, "codec")
            self._leave(number, "talker")

    def _leave(self, number: int, stage: StageName) -> None:
        generation = self._generations.get(number)
        if generation is None:
            return
        generation.in_talker &= stage != "talker"
        generation.in_codec &= stage != "codec"
        if not generation.in_talker and not generation.in_codec:
            del self._generations[number]

    # ---- what goes out

    def _enter(self, stage: StageName, state: StageState) -> None:
        self._states[stage] = state
        self._on_state(stage, state)

    def _say(self, stage: StageName, message: Message) -> None:
        self._loop.call_soon(self._deliver, stage, self._lives[stage], message)

    def _deliver(self, stage: StageName, life: int, message: Message) -> None:
        if life != self._lives[stage]:
            return
        self._on_message(stage, message)
        # A real stage's arrays are views that end here; who kept one without a copy shall notice.
        match message:
            case Audio(samples=samples):
                samples.fill(np.nan)
            case TalkerDone(codes=codes):
                codes.fill(-1)
