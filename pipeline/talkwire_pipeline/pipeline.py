"""The pipeline: text in, audio out, with two stage processes behind it. asyncio, no torch, no gRPC.

async with Pipeline(load("demo")) as pipeline:
    utterance = pipeline.open()
    utterance.push("Hello.")
    utterance.end()
    async for event in utterance: ...
"""

from __future__ import annotations

import dataclasses
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import msgspec

from talkwire_pipeline import sampling as draws
from talkwire_pipeline.checkpoint import read_checkpoint, resolve_checkpoint
from talkwire_pipeline.deploy.schema import Deploy
from talkwire_pipeline.errors import NotFoundError, ResourceExhaustedError
from talkwire_pipeline.generation import STAGES
from talkwire_pipeline.geometry import check
from talkwire_pipeline.hub import Hub
from talkwire_pipeline.messages import StageName
from talkwire_pipeline.request import UtteranceRequest
from talkwire_pipeline.sampling import SamplingChoice
from talkwire_pipeline.stages import StageHealth, Stages, StageState
from talkwire_pipeline.supervisor import Supervisor
from talkwire_pipeline.text.frontend import TextFrontEnd
from talkwire_pipeline.utterance import Utterance
from talkwire_pipeline.voice import StreamVoice

__all__ = ["DEFAULT_VOICE", "Pipeline", "PipelineInfo", "Utterance", "UtteranceRequest"]

DEFAULT_VOICE = "default"
"""The name of the voice that is used where a request names none."""


@dataclass(frozen=True, slots=True)
class PipelineInfo:
    """What runs.

    Attributes:
        model_name: the checkpoint's name.
        sampling: the default values; the seed is unset unless the deployment fixes it.
        slots: generations at the same time.
        voices: names that a request may give.
        talker: what the talker said of itself: parameters, dtype, device, versions; empty until it is ready.
        codec: the same of the codec.
    """

    model_name: str
    sampling: SamplingChoice
    slots: int
    voices: tuple[str, ...]
    talker: dict[str, Any]
    codec: dict[str, Any]


class Pipeline:
    """Speaks utterances. An async context manager: it loads the stages on the way in and ends them on the way out.

    `stages` takes the place of the two processes, for tests.

    Attributes:
        deploy: the deployment.
    """

    def __init__(self, deploy: Deploy, stages: Stages | None = None) -> None:
        self.deploy = deploy
        folder = resolve_checkpoint(deploy.model.checkpoint)
        self._checkpoint = read_checkpoint(folder)
        frontend = TextFrontEnd(folder, deploy.text, deploy.stages.talker.max_model_len)
        self._hub = Hub(deploy, frontend, stages or Supervisor(deploy))

    async def __aenter__(self) -> Self:
        """Starts the stages; returns when they have warmed up. Raises `CheckpointError` or `UnavailableError`."""
        await self._hub.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Fails what is live, and ends the stages."""
        await self._hub.close()

    # ---- what runs

    @property
    def ready(self) -> bool:
        """Whether both stages take work, and answer."""
        return self._hub.ready and not any(self._hub.stages.health(stage).stalled for stage in STAGES)

    @property
    def on_ready_change(self) -> Callable[[], None]:
        """Called when `ready` may have changed."""
        return self._hub.on_ready_change

    @on_ready_change.setter
    def on_ready_change(self, call: Callable[[], None]) -> None:
        self._hub.on_ready_change = call

    @property
    def info(self) -> PipelineInfo:
        """What runs."""
        return PipelineInfo(
            model_name=self.deploy.model.name or self._checkpoint.name,
            sampling=self._sampling(SamplingChoice()),
            slots=self.deploy.stages.talker.max_num_seqs,
            voices=(DEFAULT_VOICE,),
            talker=self._hub.stages.facts("talker"),
            codec=self._hub.stages.facts("codec"),
        )

    @property
    def queued(self) -> int:
        """Segments that wait for a slot."""
        return len(self._hub.dispatcher.waiting)

    @property
    def busy(self) -> int:
        """Slots of the talker in use."""
        return self._hub.dispatcher.busy

    @property
    def preempted(self) -> int:
        """Segments that gave way to more urgent ones so far."""
        return self._hub.preempted

    @property
    def live(self) -> int:
        """Utterances that have not ended."""
        return len(self._hub.utterances)

    def state(self, stage: StageName) -> StageState:
        """A stage's state."""
        return self._hub.stages.state(stage)

    def stats(self, stage: StageName) -> dict[str, float]:
        """A stage's last counters and gauges, by name."""
        return self._hub.stages.stats(stage)

    def health(self, stage: StageName) -> StageHealth:
        """How a stage's process is."""
        return self._hub.stages.health(stage)

    # ---- what is spoken

    def stream_voice(self) -> StreamVoice:
        """The voice of a new stream, to be given to each of its utterances. Its owner closes it."""
        return StreamVoice(self._hub.references, self.deploy.text.max_reference_s)

    def open(self, request: UtteranceRequest | None = None, voice: StreamVoice | None = None) -> Utterance:
        """A new utterance; without `voice` it is a stream of its own.

        Raises `InvalidArgumentError`, `NotFoundError`, `UnavailableError` or `ResourceExhaustedError`.
        """
        request = self._completed(request or UtteranceRequest())
        geometry = check(request.geometry or self.deploy.geometry)
        choice = self._sampling(draws.check(request.sampling, runner=self.deploy.runner.model_runner))
        self._admit(request)
        values = draws.resolve(choice, seed=secrets.randbits(63))
        server_id = secrets.token_hex(16)
        own = voice or self.stream_voice()
        utterance = Utterance(self._hub, server_id, request, values, geometry, own)
        self._hub.enter(utterance, None if voice else own)
        return utterance

    def _completed(self, request: UtteranceRequest) -> UtteranceRequest:
        """With the deployment's values where it has none; nobody listens to batch, which is never late."""
        late_s = self.deploy.server.first_audio_timeout_s if request.priority == 0 else None
        return dataclasses.replace(
            request,
            language=request.language or self.deploy.model.language,
            first_audio_timeout_s=request.first_audio_timeout_s or late_s,
        )

    def _admit(self, request: UtteranceRequest) -> None:
        """Raises what refuses it."""
        if request.voice not in ("", DEFAULT_VOICE):
            raise NotFoundError(
                f"voice: there is no voice {request.voice!r}; this server has {DEFAULT_VOICE!r}",
                reason="VOICE_NOT_FOUND",
            )
        if not self.ready:
            raise self._hub.unavailable()
        limits = self.deploy.server
        if self.live >= limits.max_live_utterances:
            raise ResourceExhaustedError(f"{self.live} utterances are live: server.max_live_utterances")
        if self.queued >= limits.max_queued_segments:
            raise ResourceExhaustedError(f"{self.queued} segments wait for a slot: server.max_queued_segments")
        self._hub.check(request.priority, request.first_audio_timeout_s or math.inf)

    def _sampling(self, choice: SamplingChoice) -> SamplingChoice:
        """The request's values, else the deployment's, else the checkpoint's, else the usual; the seed may be unset."""
        merged = draws.resolve(choice, self.deploy.sampling, self._checkpoint.sampling, seed=0)
        seed = self.deploy.sampling.seed if choice.seed is None else choice.seed
        return SamplingChoice(**{**msgspec.structs.asdict(merged), "seed": seed})
