"""What the processes say to each other: one frozen struct a message. Which edge carries which: docs/design.md.

Numbers named `*_ns` are of `time.monotonic_ns`, which all processes of a machine share. Arrays travel raw
behind the rest and are decoded as views; a receiver that keeps one copies it. How a message becomes bytes is
`talkwire_pipeline.connector.codec`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from talkwire_pipeline.geometry import Geometry
from talkwire_pipeline.sampling import Sampling

Codes = npt.NDArray[np.int16]
"""Code rows or frames: [T, 8] int16."""
EndReason = Literal["eos", "cap", "loop", "abort"]
"""Why a generation's rows ended: the model said so, the cap was reached, they went in circles, or it was dropped."""
StageName = Literal["talker", "codec"]


class Message(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Base of all messages. `kind` is the type number of the wire header.

    Attributes:
        generation: the generation that this is about, counted up from 1 and never used again; 0: none.
    """

    kind: ClassVar[int] = 0
    generation: int = 0


# ---- server -> talker


class Open(Message, frozen=True, kw_only=True):
    """Starts a generation. The last three fields are passed on to the codec with `Begin`.

    Attributes:
        prompt: [n] int32, the tokenizer's ids.
        reference: id of the reference whose rows are put into the prompt; 0: none.
        reference_at: where in `prompt` they go (before the id at this index).
        sampling: all values set.
        max_rows: the cap.
        priority: smaller is served first.
        geometry: the shape of its chunks.
        credit_samples: samples that may be decoded before any `Credit` comes.
        dry_ns: when the utterance's player runs dry without this generation; 0: nothing is playing yet.
    """

    kind: ClassVar[int] = 1
    prompt: npt.NDArray[np.int32]
    reference: int = 0
    reference_at: int = 0
    sampling: Sampling
    max_rows: int
    priority: int = 0
    geometry: Geometry
    credit_samples: int
    dry_ns: int = 0


class PutReference(Message, frozen=True, kw_only=True):
    """Hands over a reference's frames: `codes` [T, 8] int16, undelayed. Sent before the first `Open` that names it."""

    kind: ClassVar[int] = 2
    reference: int
    codes: Codes


class DropReference(Message, frozen=True, kw_only=True):
    """The reference will not be named again."""

    kind: ClassVar[int] = 3
    reference: int


# ---- server -> either stage


class Abort(Message, frozen=True, kw_only=True):
    """Drop the generation; always answered by `Released`, also when it is unknown or over."""

    kind: ClassVar[int] = 4


class Peer(Message, frozen=True, kw_only=True):
    """The other stage went down or came up. After `down` every generation is freed.

    A talker also sends it to the codec, `down`, as its first message: what was before it in the ring is void.
    """

    kind: ClassVar[int] = 5
    stage: StageName
    up: bool


class Ping(Message, frozen=True, kw_only=True):
    """Answered by `Pong` from the stage's own loop."""

    kind: ClassVar[int] = 6
    nonce: int


class Stop(Message, frozen=True, kw_only=True):
    """Leave: tear down and exit 0."""

    kind: ClassVar[int] = 7


class Credit(Message, frozen=True, kw_only=True):
    """To the codec: the utterance's reader has taken `samples` more of this generation."""

    kind: ClassVar[int] = 8
    samples: int


# ---- talker -> codec


class Begin(Message, frozen=True, kw_only=True):
    """Rows of this generation follow. Fields as in `Open`."""

    kind: ClassVar[int] = 16
    geometry: Geometry
    credit_samples: int
    dry_ns: int
    max_rows: int


class Rows(Message, frozen=True, kw_only=True):
    """The rows of one talker step.

    Attributes:
        generations: [n] uint64, one for each row.
        codes: [n, 8] int16, delayed, as the talker emits them.
    """

    kind: ClassVar[int] = 17
    generations: npt.NDArray[np.uint64]
    codes: Codes


class End(Message, frozen=True, kw_only=True):
    """No more rows of this generation. Follows every `Begin`."""

    kind: ClassVar[int] = 18
    reason: EndReason


# ---- either stage -> server


class Hello(Message, frozen=True, kw_only=True):
    """The process runs and begins to load."""

    kind: ClassVar[int] = 32
    stage: StageName
    pid: int


class Ready(Message, frozen=True, kw_only=True):
    """Loaded and warmed up. `facts`: parameter counts, dtype, device, library versions, limits."""

    kind: ClassVar[int] = 33
    stage: StageName
    facts: dict[str, Any]


class Refused(Message, frozen=True, kw_only=True):
    """The talker did not start the generation.

    Attributes:
        reason: `reference`: the named reference is not in its cache, put it and open again; `full`: no slot is
            free; `length`: prompt and cap do not fit `max_model_len`.
    """

    kind: ClassVar[int] = 34
    reason: Literal["reference", "full", "length"]
    detail: str = ""


class TalkerDone(Message, frozen=True, kw_only=True):
    """All rows of the generation went to the codec.

    Attributes:
        reason: why they ended.
        rows: how many there were.
        first_row_ns: when the first one was made, by `monotonic_ns`; 0: there was none.
        codes: [frames, 8] int16, undelayed: the frames, fit to be a reference.
    """

    kind: ClassVar[int] = 35
    reason: EndReason
    rows: int
    first_row_ns: int = 0
    codes: Codes


class CodecDone(Message, frozen=True, kw_only=True):
    """All audio of the generation went out: `samples` of them in total."""

    kind: ClassVar[int] = 36
    samples: int
    reason: EndReason


class Released(Message, frozen=True, kw_only=True):
    """Answers `Abort`: this stage holds nothing of the generation and sends nothing more of it.

    Attributes:
        samples: what the codec had decoded of it; 0 from the talker.
    """

    kind: ClassVar[int] = 37
    samples: int = 0


class Failed(Message, frozen=True, kw_only=True):
    """The generation broke in this stage and is freed there. `detail` is for the log, not for the caller."""

    kind: ClassVar[int] = 38
    detail: str


class Audio(Message, frozen=True, kw_only=True):
    """Decoded samples.

    Attributes:
        first_sample: position in the generation.
        samples: [S] float32 at 24 kHz, about -1 to 1.
    """

    kind: ClassVar[int] = 39
    first_sample: int
    samples: npt.NDArray[np.float32]


class Pong(Message, frozen=True, kw_only=True):
    """Answers `Ping`. `stats`: the stage's counters and gauges by name (units in the names)."""

    kind: ClassVar[int] = 40
    nonce: int
    stats: dict[str, float]


MESSAGES: dict[int, type[Message]] = {
    cls.kind: cls
    for cls in (
        Open, PutReference, DropReference, Abort, Peer, Ping, Stop, Credit,
        Begin, Rows, End,
        Hello, Ready, Refused, TalkerDone, CodecDone, Released, Failed, Audio, Pong,
    )
}  # fmt: skip
"""Every message class by its `kind`."""
