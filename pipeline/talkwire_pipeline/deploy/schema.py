"""The typed, frozen schema of a deploy file (docs/design.md, section 5). Units are in the names."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from talkwire_pipeline.deploy.section import Amount, Count, Seconds, Section, Share
from talkwire_pipeline.deploy.server import Server
from talkwire_pipeline.geometry import PRESETS, Geometry, Preset, check
from talkwire_pipeline.sampling import Runner, SamplingChoice

Platform: TypeAlias = Literal["cuda", "rocm", "npu", "xpu", "musa", "cpu"]
Dtype: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]
Devices: TypeAlias = Literal["auto"] | tuple[Amount, ...]
Switch: TypeAlias = bool | None
"""A feature: on, off, or as the runner has it."""


class Model(Section, frozen=True, kw_only=True):
    """Which checkpoint.

    Attributes:
        checkpoint: `demo`, a folder, or the id of a model in the local Hugging Face cache.
        name: what `GetServerInfo` calls it; empty: the checkpoint's own.
        language: BCP 47 tag used where a request has none.
    """

    checkpoint: str = "demo"
    name: str = ""
    language: str = "en"


class Talker(Section, frozen=True, kw_only=True):
    """The talker stage. Switches that are unset follow the runner (`deploy.runner`).

    Attributes:
        model_runner: what steps it; unset: the platform's.
        max_num_seqs: slots: generations that run at the same time.
        max_model_len: prompt ids plus rows of one generation.
        max_num_batched_tokens: prompt ids that one prefill call takes; bounds how long a newcomer delays others.
        max_reference_frames: frames of all references that the device keeps.
        dtype: `auto`: fp32 activations on fp16-stored weights on a CPU, bfloat16 elsewhere.
        devices: numbers of the platform's devices; `auto`: the first.
        gpu_memory_utilization: share of a device's memory that vLLM takes for weights and KV cache.
        enforce_eager: no captured graphs of any kind.
        enable_prefix_caching: vLLM keeps the KV of prompts and references that come again.
        attention_backend: vLLM's name of it; unset: vLLM's choice.
        compilation_config: handed to vLLM as it is.
        async_scheduling: the next step is scheduled while this one runs.
        decode_graph: decode steps replay captured graphs.
        device_codes: codes of running generations stay on the device.
        device_sampling: codes are drawn on the device.
        device_feedback: a step's codes are the next one's input without a way through the host.
        batched_state_update: one update for all slots of a step.
        async_egress: rows leave by copies that no step waits for.
        start_timeout_s: limit of a start, from the new process to its first warm step; then it is tried again.
        memory_limit_mib: a process with more resident memory is ended and started again; unset: none.
        threads: CPU threads of the process.
        niceness: added to the process's nice value, so that compute stays below the front end.
    """

    model_runner: Runner | None = None
    max_num_seqs: Count = 8
    max_model_len: Count = 2048
    max_num_batched_tokens: Count = 128
    max_reference_frames: Count = 4096
    dtype: Dtype = "auto"
    devices: Devices = "auto"
    gpu_memory_utilization: Share = 0.6
    enforce_eager: bool = False
    enable_prefix_caching: bool = True
    attention_backend: str | None = None
    compilation_config: dict[str, Any] = msgspec.field(default_factory=dict)
    async_scheduling: Switch = None
    decode_graph: Switch = None
    device_codes: Switch = None
    device_sampling: Switch = None
    device_feedback: Switch = None
    batched_state_update: Switch = None
    async_egress: Switch = None
    start_timeout_s: Seconds = 120.0
    memory_limit_mib: Count | None = None
    threads: Count = 1
    niceness: Amount = 10


class Codec(Section, frozen=True, kw_only=True):
    """The codec stage.

    Attributes:
        max_num_seqs: generations that it holds at the same time; more than the talker's, since a generation stays
            until its last audio is out.
        codec_max_batch_frames: frames (context included) of one decoder call; bounds how long a command waits.
        dtype: `auto`: float32 everywhere; half precision is heard in quiet passages.
        enforce_eager: no captured graphs.
        codec_graphs: decoder calls replay captured graphs.
        devices, start_timeout_s, memory_limit_mib, threads, niceness: as for the talker.
    """

    max_num_seqs: Count = 64
    codec_max_batch_frames: Count = 48
    dtype: Dtype = "auto"
    devices: Devices = "auto"
    enforce_eager: bool = False
    codec_graphs: Switch = None
    start_timeout_s: Seconds = 120.0
    memory_limit_mib: Count | None = None
    threads: Count = 1
    niceness: Amount = 10


class Stages(Section, frozen=True, kw_only=True):
    """The two stages."""

    talker: Talker = Talker()
    codec: Codec = Codec()


class Connector(Section, frozen=True, kw_only=True):
    """One kind of edge: `capacity_bytes` of its ring (rounded up to a power of two)."""

    capacity_bytes: Count = 1 << 20


class Codes(Section, frozen=True, kw_only=True):
    """The talker -> codec edge and the geometry of what goes over it.

    A preset stands for all the numbers; those that are given go over it. Chunk sizes may be changed without touching
    the seams; with another context or holdback the geometry is `custom`.
    """

    capacity_bytes: Count = 1 << 20
    geometry: Preset = "exact"
    initial_codec_chunk_frames: Count | None = None
    codec_chunk_frames: Count | None = None
    codec_left_context_frames: Amount | None = None
    codec_right_holdback_frames: Amount | None = None
    initial_codec_right_holdback_frames: Amount | None = None
    ramp: Literal["adaptive"] | tuple[Count, ...] | None = None


class Connectors(Section, frozen=True, kw_only=True):
    """The edges: commands to either stage, codes between them, audio and the talker's events back."""

    commands: Connector = Connector()
    codes: Codes = Codes()
    audio: Connector = Connector(capacity_bytes=8 << 20)
    events: Connector = Connector()


class CapWeights(Section, frozen=True, kw_only=True):
    """Seconds of speech that a piece of text may at most become (docs/design.md, section 7)."""

    letter_s: float = 0.15
    digit_or_symbol_s: float = 0.6
    ideograph_s: float = 0.45
    pause_s: float = 2.0
    base_s: float = 0.6


class Text(Section, frozen=True, kw_only=True):
    """The text front end.

    Attributes:
        max_utterance_chars: characters of one utterance.
        max_segment_chars: characters of one segment; unset: the checkpoint's, else 400.
        text_normalization: `words` spells out what the model cannot read; unset: the checkpoint's, else `none`.
        first_segment_chars: the first segment may be cut at a safe place once so much is there.
        idle_flush_s: after so long without text the last safe place is cut; 0: never.
        continuity: where a segment takes its voice from when the caller named none.
        max_reference_s: longest tail that is used as a reference.
        cap: weights of the cap.
        max_audio_s: audio of one utterance; the text that is left then is not spoken.
    """

    max_utterance_chars: Count = 200_000
    max_segment_chars: Count | None = None
    text_normalization: Literal["none", "words"] | None = None
    first_segment_chars: Count = 40
    idle_flush_s: Annotated[float, msgspec.Meta(ge=0)] = 0.3
    continuity: Literal["anchor", "rolling", "off"] = "anchor"
    max_reference_s: Seconds = 20.0
    cap: CapWeights = CapWeights()
    max_audio_s: Seconds = 3600.0


class Body(Section, frozen=True, kw_only=True):
    """The sections of a deploy file that overlays may have too."""

    model: Model = Model()
    stages: Stages = Stages()
    connectors: Connectors = Connectors()
    sampling: dict[str, Any] = msgspec.field(default_factory=dict)
    text: Text = Text()
    server: Server = Server()


class Platforms(Section, frozen=True, kw_only=True):
    """Overlays by platform."""

    cuda: Body = Body()
    rocm: Body = Body()
    npu: Body = Body()
    xpu: Body = Body()
    musa: Body = Body()
    cpu: Body = Body()


class File(Body, frozen=True, kw_only=True):
    """A deploy file.

    Attributes:
        base_config: a shipped profile, or a file beside this one, that this one is laid over.
        platforms: what is laid over it on each platform.
    """

    base_config: str = ""
    platforms: Platforms = Platforms()


class RunnerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the runner does, every switch resolved; see `Talker` and `Codec` for each."""

    model_runner: Runner = "embedded"
    async_scheduling: bool = False
    decode_graph: bool = False
    device_codes: bool = True
    device_sampling: bool = True
    device_feedback: bool = True
    batched_state_update: bool = True
    async_egress: bool = False
    codec_graphs: bool = False


class Deploy(Section, frozen=True, kw_only=True):
    """One deployment, merged and resolved: what runs, what the stages get, what the server reports.

    Attributes:
        profile: name of the profile, or path of the file, that it came from.
        platform: where it runs.
        runner: what steps the talker, and how.
        sampling: defaults; what is unset is the checkpoint's.
        provenance: where each value that is not a default was written, by its key path: `demo.yaml:7`.
        warnings: what loading had to say.
    """

    profile: str = "demo"
    platform: Platform = "cpu"
    runner: RunnerOptions = RunnerOptions()
    model: Model = Model()
    stages: Stages = Stages()
    connectors: Connectors = Connectors()
    sampling: SamplingChoice = SamplingChoice()
    text: Text = Text()
    server: Server = Server()
    provenance: dict[str, str] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def geometry(self) -> Geometry:
        """The default geometry; loading has made `connectors.codes` name every number of it."""
        return resolve_geometry(self.connectors.codes)


GEOMETRY_KEYS = {
    "initial_codec_chunk_frames": "initial",
    "codec_chunk_frames": "steady",
    "codec_left_context_frames": "left",
    "codec_right_holdback_frames": "holdback",
    "initial_codec_right_holdback_frames": "initial_holdback",
    "ramp": "ramp",
}
"""Keys of `connectors.codes`, and what a `Geometry` calls them."""
SEAM_KEYS = ("codec_left_context_frames", "codec_right_holdback_frames", "initial_codec_right_holdback_frames")
"""Those that decide how a chunk fits its neighbours: with other values than its own a preset is `custom`."""


def geometry_keys(preset: Preset) -> dict[str, Any]:
    """The values of `GEOMETRY_KEYS` that a preset stands for; nothing for `custom`."""
    shape = PRESETS.get(preset)
    return {} if shape is None else {key: getattr(shape, name) for key, name in GEOMETRY_KEYS.items()}


def resolve_geometry(codes: Codes) -> Geometry:
    """The geometry of a `codes` section; raises `InvalidArgumentError` where it does not hold together."""
    base = PRESETS.get(codes.geometry, PRESETS["exact"])
    changed = {ours: value for key, ours in GEOMETRY_KEYS.items() if (value := getattr(codes, key)) is not None}
    shape = msgspec.structs.replace(base, preset=codes.geometry, **changed)
    if any(getattr(shape, GEOMETRY_KEYS[key]) != getattr(base, GEOMETRY_KEYS[key]) for key in SEAM_KEYS):
        shape = msgspec.structs.replace(shape, preset="custom")
    return check(shape, "connectors.codes")
