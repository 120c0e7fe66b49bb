"""Between utterances and stages: opens generations, routes what the stages say, lets go of what is dropped."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import msgspec
import numpy as np

from talkwire_pipeline.delay import DELAY
from talkwire_pipeline.deploy.schema import Deploy
from talkwire_pipeline.dispatch import Dispatcher
from talkwire_pipeline.errors import (
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
    TalkwireError,
    UnavailableError,
)
from talkwire_pipeline.generation import STAGES, Generation
from talkwire_pipeline.geometry import SAMPLE_RATE_HZ
from talkwire_pipeline.messages import (
    Abort,
    Audio,
    CodecDone,
    Credit,
    Failed,
    Message,
    Open,
    Refused,
    Released,
    StageName,
    TalkerDone,
)
from talkwire_pipeline.stages import Stages, StageState
from talkwire_pipeline.text.frontend import Prepared, TextFrontEnd
from talkwire_pipeline.utterance import Utterance
from talkwire_pipeline.voice import Reference, ReferenceStore, StreamVoice, segment_seed

log = logging.getLogger(__name__)


class Hub:
    """The pipeline as utterances see it (`talkwire_pipeline.host.Host`), and its stages.

    Attributes:
        deploy: the deployment.
        frontend: cuts and reads text.
        stages: the two stages.
        dispatcher: the queue before the talker.
        references: all references.
        utterances: those that have not ended, each with its own voice if its stream has none.
        on_ready_change: called when `ready` may have changed.
        preempted: segments that gave way to more urgent ones.
    """

    def __init__(self, deploy: Deploy, frontend: TextFrontEnd, stages: Stages) -> None:
        self.deploy = deploy
        self.frontend = frontend
        self.stages = stages
        limits = deploy.stages
        self.dispatcher: Dispatcher[Generation] = Dispatcher(
            limits.talker.max_num_seqs, limits.codec.max_num_seqs, make_room=self._make_room
        )
        self.references = ReferenceStore(lambda message: stages.send("talker", message))
        self.utterances: dict[Utterance, StreamVoice | None] = {}
        self.on_ready_change: Callable[[], None] = lambda: None
        self.preempted = 0
        self._ids = count(1)
        self._generations: dict[int, Generation] = {}
        self._opened: dict[int, Open] = {}  # what may have to be sent again

    async def start(self) -> None:
        """Starts the stages."""
        await self.stages.start(self._on_message, self._on_state)

    async def close(self) -> None:
        """Fails what is live, and ends the stages."""
        for utterance in list(self.utterances):
            utterance.fail(UnavailableError("the pipeline is closed", reason="DRAINING"))
        await self.stages.close()

    # ---- what an utterance asks

    @property
    def ready(self) -> bool:
        """Whether both stages take work."""
        return all(self.stages.state(stage) == "ready" for stage in STAGES)

    @property
    def first_audio_s(self) -> float:
        """How long a segment's first audio takes of late, from its slot on."""
        return self.dispatcher.pace.first_s

    @property
    def credit_samples(self) -> int:
        """Samples that may be decoded ahead of what a caller has taken."""
        return int(self.deploy.server.max_buffered_audio_s * SAMPLE_RATE_HZ)

    def unavailable(self) -> UnavailableError:
        """Why the pipeline is not ready."""
        states = [
            f"the {stage} is {self.stages.state(stage)}" for stage in STAGES if self.stages.state(stage) != "ready"
        ] or [f"the {stage} does not answer" for stage in STAGES if self.stages.health(stage).stalled]
        return UnavailableError(f"{' and '.join(states)}; try again in a moment")

    def check(self, priority: int, left_s: float) -> None:
        """Whether a segment may begin to wait whose first audio must come within `left_s`.

        Raises `UnavailableError` while a stage is down, and `ResourceExhaustedError` where it would come too late.
        """
        if not self.ready:
            raise self.unavailable()
        wait_s = self.dispatcher.wait_s(priority)
        takes_s = wait_s + self.first_audio_s
        if self.dispatcher.held and takes_s > left_s:
            text = f"the first audio would take about {takes_s:.2g} s, and first_audio_timeout_s leaves {left_s:.2g} s"
            raise ResourceExhaustedError(text, retry_after_s=max(takes_s - left_s, 0.1))

    def enter(self, utterance: Utterance, own_voice: StreamVoice | None) -> None:
        """A new utterance; `own_voice` is closed with it."""
        self.utterances[utterance] = own_voice

    def left(self, utterance: Utterance) -> None:
        """The utterance is over."""
        if (voice := self.utterances.pop(utterance, None)) is not None:
            voice.close()

    def submit(self, generation: Generation) -> None:
        """Lets it wait for a slot; `Utterance.open_generation` follows."""
        self.dispatcher.submit(generation)

    def open(self, generation: Generation) -> bool:
        """Sends it to the talker with its `place`. False: there is nothing to speak in it.

        Raises `InvalidArgumentError` where its prompt is too long, `InternalError` for a fault of ours: whoever gave a
        slot back must not feel what befalls the next one.
        """
        try:
            return self._open(generation)
        except TalkwireError:
            raise
        except Exception as error:
            log.exception("a segment could not be opened")
            raise _fault("opening", repr(error), generation.utterance.server_id) from error

    def _open(self, generation: Generation) -> bool:
        number, reference = generation.place or (0, None)
        prepared, reference = self._prepare(generation, reference)
        if not prepared.speakable:
            return False
        if reference is not None:
            self.references.ensure(reference)
        message = self._open_message(generation, prepared, reference, number)
        self.stages.send("talker", message)  # first: where it cannot be sent there is nothing to be undone
        if reference is not None:
            self.references.settle(reference)
        generation.opened_ns = time.monotonic_ns()
        generation.id = message.generation
        generation.body = prepared.body
        generation.holds_slot = True
        self._generations[generation.id] = generation
        self._opened[generation.id] = message
        self.stages.watch(True)
        return True

    def _prepare(self, generation: Generation, reference: Reference | None) -> tuple[Prepared, Reference | None]:
        """The segment's prompt; without the reference where both are too long: better another voice than no words."""
        language = generation.utterance.request.language
        if reference is not None:
            with suppress(InvalidArgumentError):
                frames = len(reference.codes)
                return self.frontend.prepare(generation.segment, reference.text, frames, language), reference
        return self.frontend.prepare(generation.segment, language=language), None

    def _open_message(
        self, generation: Generation, prepared: Prepared, reference: Reference | None, number: int
    ) -> Open:
        utterance = generation.utterance
        seed = segment_seed(utterance.sampling.seed, number)
        return Open(
            generation=next(self._ids),
            prompt=prepared.prompt.ids,
            reference=reference.id if reference else 0,
            reference_at=prepared.prompt.reference_at,
            sampling=msgspec.structs.replace(utterance.sampling, seed=seed),
            max_rows=min(prepared.max_rows, utterance.frames_left + DELAY),
            priority=utterance.request.priority,
            geometry=utterance.geometry,
            credit_samples=self.credit_samples + generation.taken,
            dry_ns=utterance.dry_ns(),
        )

    def credit(self, generation: Generation, samples: int) -> None:
        """The caller has taken so many samples more of it."""
        generation.taken += samples
        if not generation.codec_over and generation.id in self._generations:
            self.stages.send("codec", Credit(generation=generation.id, samples=samples))

    def abort(self, generation: Generation) -> bool:
        """Drops it wherever it is. True: a stage holds it, and `generation.released` will be set."""
        if generation.id not in self._generations:
            self.dispatcher.withdraw(generation)
            return False
        if generation.begins and not generation.received:
            self.dispatcher.pace.gave_up(generation.since_opened_s)
        generation.unreleased = set(STAGES)
        for stage in STAGES:
            self.stages.send(stage, Abort(generation=generation.id))
        return True

    def _make_room(self, wanting: Generation) -> bool:
        """Takes the slot of the youngest segment of lower priority: it is made again later, from the same draws."""
        held = (each for each in reversed(self._generations.values()) if each.holds_slot and not each.unreleased)
        victim = next((each for each in held if each.priority > wanting.priority), None)
        if victim is None:
            return False
        self.preempted += 1
        for stage in STAGES:
            self.stages.send(stage, Abort(generation=victim.id))
        del self._generations[victim.id], self._opened[victim.id]
        victim.give_way()
        self.dispatcher.give_way(victim)
        return True

    # ---- what the stages say

    def _on_message(self, stage: StageName, message: Message) -> None:
        generation = self._generations.get(message.generation)
        if generation is None:  # let go of before it came
            return
        utterance = generation.utterance
        match message:
            case Audio():
                self._audio(generation, message)
            case TalkerDone():
                self._free_slot(generation)
                utterance.talker_done(generation, message)
                self._forget_if_over(generation)
            case CodecDone():
                utterance.codec_done(generation)
                self._forget_if_over(generation)
            case Released():
                self._released(stage, generation)
            case Refused():
                self._refused(generation, message)
            case Failed():
                utterance.fail(_fault(stage, message.detail, utterance.server_id))
            case _:
                log.error("the %s said %s, which nobody awaits", stage, type(message).__name__)

    def _audio(self, generation: Generation, message: Audio) -> None:
        if message.first_sample == 0 and generation.begins:
            self.dispatcher.pace.spoke(generation.since_opened_s)
        samples = generation.fresh(message.samples, message.first_sample)
        if len(samples):
            generation.utterance.audio(generation, np.array(samples))

    def _refused(self, generation: Generation, message: Refused) -> None:
        """A reference is sent again with its segment, once; everything else is a fault of ours."""
        if generation.unreleased:  # it was dropped meanwhile
            return
        opened = self._opened.pop(generation.id, None)
        if opened and message.reason == "reference" and self.references.send_again(opened.reference):
            self.stages.send("talker", opened)
            return
        detail = f"refused ({message.reason}): {message.detail}"
        generation.utterance.fail(_fault("talker", detail, generation.utterance.server_id))

    def _released(self, stage: StageName, generation: Generation) -> None:
        generation.unreleased.discard(stage)
        if stage == "talker":
            self._free_slot(generation)
        if not generation.unreleased:
            self._forget(generation)

    def _forget_if_over(self, generation: Generation) -> None:
        if generation.over and not generation.unreleased:
            self._forget(generation)

    def _forget(self, generation: Generation) -> None:
        """No stage holds it any more."""
        self._generations.pop(generation.id, None)
        self._opened.pop(generation.id, None)
        generation.released.set()
        self.dispatcher.leave()
        if not self._generations:
            self.stages.watch(False)

    def _free_slot(self, generation: Generation) -> None:
        if generation.holds_slot:
            generation.holds_slot = False
            self.dispatcher.pace.held(generation.since_opened_s)
            self.dispatcher.free()

    def _on_state(self, stage: StageName, state: StageState) -> None:
        """A stage that goes down takes everything with it that was in either: the other one frees it too."""
        if state == "down":
            if stage == "talker":
                self.references.forget_sent()
            self._drop_all(UnavailableError(f"the {stage} went down while this was spoken; try again in a moment"))
        self.on_ready_change()

    def _drop_all(self, error: UnavailableError) -> None:
        lost = list(self._generations.values())
        waiting = list(self.dispatcher.waiting.values())
        self.dispatcher.waiting.clear()
        for generation in lost:
            generation.unreleased.clear()
            self._forget(generation)
        for generation in (*lost, *waiting):
            generation.utterance.fail(error)
        for generation in lost:
            self._free_slot(generation)


def _fault(where: str, detail: str, server_id: str) -> InternalError:
    """What the caller is told; the log has the rest under the same id."""
    fault_id = secrets.token_hex(6)
    log.error("fault %s in the %s: %s", fault_id, where, detail, extra={"server_id": server_id})
    return InternalError(f"the {where} failed; the server's log says more under {fault_id}")
