"""What every stage does: set up; receive, step, send; tear down. It knows nothing of talkers and codecs.

One thread, one loop. It blocks in one place, `poll`, where an idle stage uses no CPU. Commands are read between
steps and also while a full ring holds the steps back; a ping is answered from the loop itself, so an answer means
that the loop runs.
"""

from __future__ import annotations

import gc
import logging
import os
import pkgutil
import select
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from talkwire_pipeline.connector.edge import Receiver, Sender
from talkwire_pipeline.connector.ring import Ring
from talkwire_pipeline.deploy import Deploy
from talkwire_pipeline.errors import TalkwireError
from talkwire_pipeline.messages import Failed, Hello, Message, Peer, Ping, Pong, Ready
from talkwire_pipeline.stage.config import StageConfig
from talkwire_pipeline.stage.outbox import Outbox

log = logging.getLogger(__name__)

Emit = Callable[[Message], None]
"""Takes a message that goes out. Never blocks."""


class StageLoop(Protocol):
    """What a stage does, without the process around it."""

    @property
    def stopped(self) -> bool:
        """Whether it was told to stop."""

    def handle(self, message: Message) -> None:
        """Acts on a message. Its arrays are views that end with the call."""

    def step(self) -> bool:
        """One bounded piece of work. False: there is none until the next message."""

    def stats(self) -> dict[str, float]:
        """Counters and gauges by name."""


@dataclass(frozen=True, slots=True)
class Built:
    """A stage that is loaded and warm. `facts` go out with `Ready`."""

    loop: StageLoop
    facts: dict[str, Any]
    close: Callable[[], None] = lambda: None


class Build(Protocol):
    """Loads a stage and warms it up; nothing may be emitted before it returns. The codec emits to the server only."""

    def __call__(self, deploy: Deploy, to_server: Emit, to_codec: Emit) -> Built:
        """Raises `TalkwireError`, `CheckpointError` above all, with words for the one who runs the server."""


class Wires:
    """The stage's ends of its edges, and the one place where it waits."""

    def __init__(self, config: StageConfig) -> None:
        self._poll = select.poll()
        self.talks = config.stage == "talker"
        self.commands = self._receiver(Ring.attach(config.commands, f"{config.stage}_commands"))
        codes = Ring.attach(config.codes, "codes")
        self.codes = None if self.talks else self._receiver(codes)
        self.to_codec = self._outbox(codes) if self.talks else None
        self.to_server = self._outbox(Ring.attach(config.replies, f"{config.stage}_replies"))

    def _receiver(self, ring: Ring) -> Receiver:
        receiver = Receiver(ring)
        receiver.discard()  # it was meant for the process that this one replaces
        self._poll.register(receiver.fileno, select.POLLIN)
        return receiver

    def _outbox(self, ring: Ring) -> Outbox:
        sender = Sender(ring)

        def on_parked(parked: bool) -> None:
            if parked:
                self._poll.register(sender.fileno, select.POLLIN)
            else:
                self._poll.unregister(sender.fileno)

        return Outbox(sender, on_parked)

    def emit_to_codec(self, message: Message) -> None:
        """Sends to the codec; only the talker has that edge."""
        if self.to_codec is None:
            raise RuntimeError(f"{type(message).__name__}: this stage has no edge to the codec")
        self.to_codec.send(message)

    def wait(self, forever: bool) -> None:
        """Returns when something came or room came back; at once if not `forever`."""
        self._poll.poll(None if forever else 0)

    def has_room(self) -> bool:
        """Sends what was parked. False: some is still parked."""
        outboxes = [box for box in (self.to_server, self.to_codec) if box is not None]
        for box in outboxes:
            box.flush()
        return not any(box.parked for box in outboxes)

    def stats(self) -> dict[str, float]:
        """Figures of this stage's ends of its edges since the process started."""
        ends = (self.commands, self.codes or self.to_codec, self.to_server)
        return {name: value for end in ends if end is not None for name, value in end.stats().items()}

    def announce(self) -> None:
        """A talker tells the codec that whatever came before on their edge is void.

        A codec that reads late finds there what the dead talker left, then this, then what this one sends.
        """
        if self.to_codec is not None:
            self.to_codec.send(Peer(stage="talker", up=False))

    def forget_peer(self) -> None:
        """The other stage is gone: drops what waits for it."""
        if self.to_codec is not None:
            self.to_codec.clear()


class StageProcess:
    """Runs a loop over its wires."""

    def __init__(self, wires: Wires, loop: StageLoop) -> None:
        self._wires = wires
        self._loop = loop

    def run(self) -> None:
        """Receives, steps and sends until the loop is told to stop."""
        busy = False
        while True:
            self._wires.wait(forever=not busy)
            self._receive()
            if self._loop.stopped:
                return
            busy = self._wires.has_room() and self._loop.step()

    def _receive(self) -> None:
        """Commands first: an abort or a peer's end must not wait behind rows."""
        for receiver in (self._wires.commands, self._wires.codes):
            if receiver is not None:
                for received in receiver.receive():
                    self._handle(received.message)

    def _handle(self, message: Message) -> None:
        if isinstance(message, Ping):
            stats = self._loop.stats() | self._wires.stats()
            self._wires.to_server.send(Pong(nonce=message.nonce, stats=stats))
            return
        if isinstance(message, Peer) and not message.up:
            self._wires.forget_peer()
        self._loop.handle(message)


def run(config: StageConfig) -> int:
    """A stage's whole life; returns its exit status.

    What goes wrong is logged and, as long as the server reads, told to it: `Failed` of generation 0.
    """
    wires = Wires(config)
    wires.to_server.send(Hello(stage=config.stage, pid=os.getpid()))
    wires.announce()
    try:
        build: Build = pkgutil.resolve_name(config.build)
        built = build(config.deploy, wires.to_server.send, wires.emit_to_codec)
        gc.collect()
        gc.freeze()  # what is loaded stays: looking through all of it again takes 80 ms, in the midst of speech
        wires.to_server.send(Ready(stage=config.stage, facts=built.facts))
        try:
            StageProcess(wires, built.loop).run()
        finally:
            built.close()
    except Exception as error:
        if not isinstance(error, TalkwireError):  # those say all that there is to say
            log.exception("%s stage failed", config.stage)
        wires.to_server.send(Failed(detail=words_of(error)))
        return 1
    return 0


def words_of(error: Exception) -> str:
    """An error as `REASON: message`, where the reason is that of a `TalkwireError`."""
    if isinstance(error, TalkwireError):
        return f"{error.reason}: {error.message}"
    return f"{TalkwireError.reason}: {type(error).__name__}: {error}"
