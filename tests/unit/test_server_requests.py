from __future__ import annotations

import math

import pytest
from google.protobuf import text_format

from talkwire.v1 import speech_pb2 as pb
from talkwire_pipeline.errors import InvalidArgumentError
from talkwire_pipeline.geometry import PRESETS, Geometry
from talkwire_pipeline.sampling import SamplingChoice
from talkwire_server import requests, responses
from talkwire_server.audio import Format
from talkwire_server.wire import Malformed, parser

DEFAULT = PRESETS["exact-fast"]


def start(text: str) -> pb.Start:
    return text_format.Parse(text, pb.Start())


def test_an_empty_start_leaves_everything_to_the_deployment() -> None:
    opening = requests.opening(pb.Start(), DEFAULT)
    assert opening.form == Format("pcm_s16le", 24_000)
    assert opening.request.geometry is None
    assert opening.request.sampling == SamplingChoice()
    assert opening.request.timeout_s is None
    assert opening.request.continuity is None


def test_every_field_arrives() -> None:
    opening = requests.opening(
        start("""
            language: "en-US" timeout_s: 5 first_audio_timeout_s: 2 priority: PRIORITY_BATCH
            audio_format { encoding: AUDIO_ENCODING_WAV sample_rate_hz: 24000 }
            sampling { temperature: 0 top_p: 1 top_k: 0 seed: 0 repetition_penalty: 1.1 }
            geometry { preset: GEOMETRY_PRESET_EXACT codec_chunk_frames: 50 ramp_frames: [2, 4] }
            text_options { continuity: CONTINUITY_ROLLING }
        """),
        DEFAULT,
    )
    request = opening.request
    assert opening.form == Format("wav", 24_000)
    assert request.sampling == SamplingChoice(temperature=0, top_p=1, top_k=0, seed=0, repetition_penalty=1.1)
    assert request.geometry == Geometry(preset="exact", steady=50, ramp=(2, 4))
    assert (request.language, request.continuity, request.timeout_s) == ("en-US", "rolling", 5)
    assert request.first_audio_timeout_s == 2
    assert request.priority > requests.opening(pb.Start(), DEFAULT).request.priority


@pytest.mark.parametrize(
    ("text", "field", "word"),
    [
        ("sampling { seed: -1 }", "start.sampling.seed", "-1"),
        ("sampling { temperature: nan }", "start.sampling.temperature", "nan"),
        ("sampling { temperature: inf }", "start.sampling.temperature", "inf"),
        ("sampling { top_p: 0 }", "start.sampling.top_p", "0"),
        ("sampling { top_k: 2000 }", "start.sampling.top_k", "2000"),
        ("sampling { repetition_penalty: -1 }", "start.sampling.repetition_penalty", "-1"),
        ("audio_format { sample_rate_hz: 11025 }", "start.audio_format.sample_rate_hz", "24000"),
        ("audio_format { sample_rate_hz: -1 }", "start.audio_format.sample_rate_hz", "-1"),
        ("timeout_s: 0", "start.timeout_s", "above 0"),
        ("timeout_s: nan", "start.timeout_s", "nan"),
        ("first_audio_timeout_s: inf", "start.first_audio_timeout_s", "inf"),
        ('language: "english please"', "start.language", "BCP 47"),
        ("geometry { codec_chunk_frames: 0 }", "start.geometry.codec_chunk_frames", "0"),
        ("geometry { codec_left_context_frames: 3 }", "start.geometry.codec_left_context_frames", "CUSTOM"),
        (
            "geometry { preset: GEOMETRY_PRESET_CUSTOM codec_left_context_frames: 300 }",
            "start.geometry.codec_left_context_frames",
            "300",
        ),
        ("geometry { ramp_frames: 0 }", "start.geometry.ramp_frames", "0"),
    ],
)
def test_a_wrong_value_is_named_with_its_field(text: str, field: str, word: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        requests.opening(start(text), DEFAULT)
    assert caught.value.field == field
    assert word in caught.value.description


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (pb.Start(priority=77), "start.priority"),  # type: ignore[arg-type]
        (pb.Start(audio_format=pb.AudioFormat(encoding=77)), "start.audio_format.encoding"),  # type: ignore[arg-type]
        (pb.Start(geometry=pb.Geometry(preset=77)), "start.geometry.preset"),  # type: ignore[arg-type]
        (pb.Start(text_options=pb.TextOptions(continuity=77)), "start.text_options.continuity"),  # type: ignore[arg-type]
    ],
)
def test_an_unknown_enum_value_is_named_with_those_that_are_known(message: pb.Start, field: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"77 is no value of .*UNSPECIFIED") as caught:
        requests.opening(message, DEFAULT)
    assert caught.value.field == field


def test_numbers_alone_change_the_deployments_geometry() -> None:
    shape = requests.to_geometry(pb.Geometry(initial_codec_chunk_frames=9), DEFAULT)
    assert shape == Geometry(preset="exact-fast", initial=9, initial_holdback=4)


def test_a_custom_geometry_holds_back_no_more_at_first_than_later() -> None:
    message = pb.Geometry(preset=pb.GEOMETRY_PRESET_CUSTOM, codec_right_holdback_frames=2)
    shape = requests.to_geometry(message, DEFAULT)
    assert shape is not None
    assert (shape.holdback, shape.initial_holdback) == (2, 2)


@pytest.mark.parametrize("shape", [*PRESETS.values(), Geometry(preset="custom", left=3, ramp=(1, 2))])
def test_a_geometry_survives_the_round_trip(shape: Geometry) -> None:
    message = responses.geometry(shape)
    custom = pb.Geometry()
    custom.CopyFrom(message)
    custom.preset = pb.GEOMETRY_PRESET_CUSTOM
    again = requests.to_geometry(custom, DEFAULT)
    assert again is not None
    assert responses.geometry(again).codec_left_context_frames == message.codec_left_context_frames
    assert list(responses.geometry(again).ramp_frames) == list(message.ramp_frames)


@pytest.mark.parametrize("utterance_id", ["", "x" * 129])
def test_an_id_must_be_there_and_short(utterance_id: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        requests.check_id(utterance_id)
    assert caught.value.field == "utterance_id"


def test_a_nul_character_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidArgumentError, match="at 2"):
        requests.check_text("ab\0c", "text.text")


def test_played_samples_may_be_unset_but_not_negative() -> None:
    assert requests.played_samples(pb.Abort(), "x") is None
    assert requests.played_samples(pb.Abort(played_samples=0), "x") == 0
    with pytest.raises(InvalidArgumentError):
        requests.played_samples(pb.Abort(played_samples=-1), "abort.played_samples")


def test_bytes_that_are_no_message_are_malformed_not_raised() -> None:
    parse = parser(pb.ConverseRequest, 1000)
    not_utf8 = b"\x0a\x01u\x1a\x05\x0a\x03\xed\xa0\x80"  # a lone surrogate in text.text
    for data in (b"\xff\xff\xff", not_utf8):
        assert isinstance(parse(data), Malformed)
    whole = pb.ConverseRequest(utterance_id="u", text=pb.TextIncrement(text="hé"))
    assert parse(whole.SerializeToString()) == whole


def test_a_message_over_the_limit_says_its_size_and_the_limit() -> None:
    result = parser(pb.ConverseRequest, 1000)(b"\0" * 1001)
    assert isinstance(result, Malformed)
    assert result.error.reason == "MESSAGE_TOO_LARGE"
    assert "1001" in result.error.message
    assert "1000" in result.error.message


def test_nan_is_what_text_format_made_of_it() -> None:
    assert math.isnan(start("timeout_s: nan").timeout_s)
