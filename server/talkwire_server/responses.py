"""Events and facts of the pipeline as the contract has them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version as installed

import msgspec

from talkwire.v1 import speech_pb2 as pb
from talkwire_pipeline import events
from talkwire_pipeline.deploy import Deploy
from talkwire_pipeline.deploy.show import features, public
from talkwire_pipeline.geometry import CODEBOOKS, FRAME_RATE_HZ, SAMPLE_RATE_HZ, Geometry
from talkwire_pipeline.pipeline import PipelineInfo
from talkwire_pipeline.sampling import SamplingChoice, ranges
from talkwire_server.audio import SAMPLE_RATES_HZ, Format
from talkwire_server.requests import ENCODINGS, GEOMETRY_FIELDS, PRESET_NAMES

_REASONS: dict[events.FinishReason, pb.FinishReason.ValueType] = {
    "complete": pb.FINISH_REASON_COMPLETE,
    "cap": pb.FINISH_REASON_CAP,
    "loop": pb.FINISH_REASON_LOOP,
    "max_audio": pb.FINISH_REASON_MAX_AUDIO,
}
_KINDS = {"segment": pb.SPAN_KIND_SEGMENT, "word": pb.SPAN_KIND_WORD}
_PRESETS = {name: number for number, name in PRESET_NAMES.items()}
_ENCODINGS = {name: number for number, name in ENCODINGS.items()}
"""The last number with a name wins: never UNSPECIFIED."""


def started(event: events.Started, form: Format) -> pb.Started:
    """The first event of an utterance."""
    return pb.Started(
        server_id=event.server_id,
        sample_rate_hz=form.sample_rate_hz,
        encoding=_ENCODINGS[form.encoding],
        geometry=geometry(event.geometry),
        seed=event.seed,
        runner=event.runner,
    )


def timing(event: events.Timing) -> pb.Timing:
    """Where spans of the text lie."""
    return pb.Timing(spans=[_span(span) for span in event.spans])


def _span(span: events.Span) -> pb.TimedSpan:
    return pb.TimedSpan(
        text_start=span.text_start,
        text_end=span.text_end,
        start_sample=span.start_sample,
        end_sample=span.end_sample,
        kind=_KINDS[span.kind],
        quality=pb.TIMING_QUALITY_EXACT if span.exact else pb.TIMING_QUALITY_ESTIMATED,
    )


def flushed(event: events.Flushed) -> pb.Flushed:
    """A flush is through."""
    return pb.Flushed(segment_count=event.segment_count, end_sample=event.end_sample)


def finished(event: events.Finished) -> pb.Finished:
    """All is spoken."""
    took = event.statistics
    statistics = pb.Statistics(
        sample_count=took.sample_count,
        segment_count=took.segment_count,
        character_count=took.character_count,
        ttfa_s=took.ttfa_s,
        first_payload_s=took.first_payload_s,
        real_time_factor=took.real_time_factor,
    )
    return pb.Finished(reason=_REASONS[event.reason], statistics=statistics)


def aborted(event: events.Aborted) -> pb.Aborted:
    """It was dropped."""
    return pb.Aborted(
        spoken_text=event.spoken_text,
        unspoken_text=event.unspoken_text,
        generated_samples=event.generated_samples,
    )


def geometry(shape: Geometry) -> pb.Geometry:
    """A geometry with all its numbers."""
    numbers: Mapping[str, int] = {key: getattr(shape, name) for key, name in GEOMETRY_FIELDS.items()}
    ramp = () if isinstance(shape.ramp, str) else shape.ramp
    return pb.Geometry(preset=_PRESETS[shape.preset], ramp_frames=ramp, **numbers)


def sampling(choice: SamplingChoice) -> pb.Sampling:
    """Sampling values; those that are unset stay so."""
    values = {name: getattr(choice, name) for name in choice.__struct_fields__}
    return pb.Sampling(**{name: value for name, value in values.items() if value is not None})


def server_info(info: PipelineInfo, deploy: Deploy, version: str) -> pb.GetServerInfoResponse:
    """What runs here."""
    deploy = public(deploy)
    return pb.GetServerInfoResponse(
        server_version=version,
        profile=deploy.profile,
        model=_model(info),
        platform=deploy.platform,
        runner=deploy.runner.model_runner,
        geometry=geometry(deploy.geometry),
        sampling=sampling(info.sampling),
        audio_formats=_formats(),
        voices=info.voices,
        slot_count=info.slots,
        max_live_utterances=deploy.server.max_live_utterances,
        max_text_chars=deploy.text.max_utterance_chars,
        library_versions=_versions(info),
        deploy_json=msgspec.json.encode(deploy).decode(),
        runner_features=features(deploy),
        provenance=deploy.provenance,
        warnings=deploy.warnings,
        sampling_ranges=_ranges(deploy),
    )


def _ranges(deploy: Deploy) -> list[pb.SamplingRange]:
    taken = ranges(deploy.runner.model_runner)
    return [pb.SamplingRange(name=name, lowest=low, highest=high) for name, (low, high) in taken.items()]


def _model(info: PipelineInfo) -> pb.ModelInfo:
    return pb.ModelInfo(
        name=info.model_name,
        talker_parameter_count=info.talker.get("parameters", 0),
        codec_parameter_count=info.codec.get("parameters", 0),
        sample_rate_hz=SAMPLE_RATE_HZ,
        frame_rate_hz=FRAME_RATE_HZ,
        codebook_count=CODEBOOKS,
    )


def _formats() -> list[pb.AudioFormat]:
    numbers = sorted(_ENCODINGS.values())
    return [pb.AudioFormat(encoding=number, sample_rate_hz=rate) for number in numbers for rate in SAMPLE_RATES_HZ]


def _versions(info: PipelineInfo) -> dict[str, str]:
    """Versions of the front's own libraries and of those that the stages named."""
    own = {name: installed(name) for name in ("grpcio", "protobuf", "numpy")}
    return own | {
        name: value for facts in (info.talker, info.codec) for name, value in facts.get("versions", {}).items()
    }
