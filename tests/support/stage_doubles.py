"""A talker and a codec without a model, for tests of the processes around them.

The talker makes `max_rows` rows of one generation, one a step, row n full of n; the codec makes of each row as many
samples of the same value as the generation's `credit_samples` say. The first prompt id asks for more:

CRASH   the talker raises
PRINT   the talker prints, logs and warns
STUCK   the codec's next step never returns

`STAGE_DOUBLE` in the environment makes the loading fail: `broken`, `foreign`, `silent` (never ready), `exit`.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections import deque

import numpy as np

from talkwire_pipeline.deploy import Deploy
from talkwire_pipeline.errors import CheckpointError
from talkwire_pipeline.messages import (
    Abort,
    Audio,
    Begin,
    CodecDone,
    End,
    Message,
    Open,
    Peer,
    Released,
    Rows,
    StageName,
    Stop,
    TalkerDone,
)
from talkwire_pipeline.stage.process import Built, Emit

CRASH, PRINT, STUCK = 1, 2, 3
BUILDERS: dict[StageName, str] = {"talker": "support.stage_doubles:talker", "codec": "support.stage_doubles:codec"}

log = logging.getLogger("talkwire.double")


def talker(deploy: Deploy, to_server: Emit, to_codec: Emit) -> Built:
    load()
    return Built(TalkerDouble(to_server, to_codec), {"slots": deploy.stages.talker.max_num_seqs})


def codec(deploy: Deploy, to_server: Emit, to_codec: Emit) -> Built:
    load()
    return Built(CodecDouble(to_server), {"slots": deploy.stages.codec.max_num_seqs})


def load() -> None:
    match os.environ.get("STAGE_DOUBLE"):
        case "broken":
            raise CheckpointError("config.json cannot be read")
        case "foreign":
            raise KeyError("no such part")
        case "silent":
            threading.Event().wait()
        case "exit":
            os._exit(3)


class Double:
    def __init__(self, to_server: Emit) -> None:
        self.to_server = to_server
        self.stopped = False
        self.steps = 0

    def handle(self, message: Message) -> None:
        match message:
            case Stop():
                self.stopped = True
            case Peer(stage=stage, up=up):
                log.info("%s is %s", stage, "up" if up else "down")
                if not up:
                    self.drop_all()
            case Abort(generation=generation):
                self.drop(generation)
                self.to_server(Released(generation=generation))
            case _:
                self.take(message)

    def drop_all(self) -> None:
        raise NotImplementedError

    def drop(self, generation: int) -> None:
        raise NotImplementedError

    def take(self, message: Message) -> None:
        raise NotImplementedError

    def stats(self) -> dict[str, float]:
        return {"steps": float(self.steps)}


class TalkerDouble(Double):
    def __init__(self, to_server: Emit, to_codec: Emit) -> None:
        super().__init__(to_server)
        self.to_codec = to_codec
        self.live: dict[int, Open] = {}
        self.rows: dict[int, int] = {}

    def drop_all(self) -> None:
        self.live.clear()

    def drop(self, generation: int) -> None:
        if self.live.pop(generation, None):
            self.to_codec(End(generation=generation, reason="abort"))

    def take(self, message: Message) -> None:
        assert isinstance(message, Open)
        wish = int(message.prompt[0])
        if wish == CRASH:
            raise RuntimeError("asked to crash")
        if wish == PRINT:
            print("a library's print", flush=True)
            log.info("a record of %d", message.generation)
            warnings.warn("a library's warning", stacklevel=1)
        self.live[message.generation] = message
        self.rows[message.generation] = 0
        self.to_codec(
            Begin(
                generation=message.generation,
                geometry=message.geometry,
                credit_samples=-1 if wish == STUCK else message.credit_samples,
                dry_ns=0,
                max_rows=message.max_rows,
            )
        )

    def step(self) -> bool:
        self.steps += 1
        for generation, opened in list(self.live.items()):
            row = self.rows[generation]
            codes = np.full((1, 8), row, np.int16)
            self.to_codec(Rows(generations=np.array([generation], np.uint64), codes=codes))
            self.rows[generation] = row + 1
            if row + 1 == opened.max_rows:
                del self.live[generation]
                self.to_codec(End(generation=generation, reason="cap"))
                done = TalkerDone(generation=generation, reason="cap", rows=row + 1, codes=codes)
                self.to_server(done)
        return bool(self.live)


class CodecDouble(Double):
    def __init__(self, to_server: Emit) -> None:
        super().__init__(to_server)
        self.scale: dict[int, int] = {}
        self.samples: dict[int, int] = {}
        self.work: deque[tuple[int, int | None]] = deque()

    def drop_all(self) -> None:
        self.scale.clear()
        self.work.clear()

    def drop(self, generation: int) -> None:
        self.scale.pop(generation, None)

    def take(self, message: Message) -> None:
        match message:
            case Begin(generation=generation):
                self.scale[generation] = message.credit_samples
                self.samples[generation] = 0
            case Rows(generations=generations, codes=codes):
                self.work.extend((int(g), int(row[0])) for g, row in zip(generations, codes, strict=True))
            case End(generation=generation):
                self.work.append((generation, None))

    def step(self) -> bool:
        if not self.work:
            return False
        self.steps += 1
        generation, row = self.work.popleft()
        scale = self.scale.get(generation, 0)
        if scale < 0:
            threading.Event().wait()
        if scale and row is None:
            self.to_server(CodecDone(generation=generation, samples=self.samples[generation], reason="cap"))
        elif scale and row is not None:
            samples = np.full(scale, row, np.float32)
            self.to_server(Audio(generation=generation, first_sample=self.samples[generation], samples=samples))
            self.samples[generation] += scale
        return True
