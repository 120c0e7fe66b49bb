from typing import Any

import pytest

from talkwire.errors import InvalidArgument
from talkwire.options import Options, build_start
from talkwire.v1 import speech_pb2 as pb


def test_nothing_given_leaves_everything_to_the_deployment() -> None:
    assert build_start({}) == pb.Start()
    assert build_start({"seed": None, "voice": None}) == pb.Start()  # type: ignore[typeddict-item]


def test_every_setting_arrives() -> None:
    options: Options = {
        "voice": "anna",
        "language": "en-GB",
        "sample_rate_hz": 16000,
        "encoding": "wav",
        "temperature": 0.0,
        "top_p": 0.5,
        "top_k": 0,
        "seed": 0,
        "repetition_penalty": 1.0,
        "geometry": "exact-fast",
        "timeout_s": 9.0,
        "first_audio_timeout_s": 1.0,
        "priority": "batch",
        "continuity": "rolling",
    }
    assert set(options) == set(Options.__annotations__)
    assert build_start(options) == pb.Start(
        voice="anna",
        language="en-GB",
        audio_format=pb.AudioFormat(encoding=pb.AUDIO_ENCODING_WAV, sample_rate_hz=16000),
        sampling=pb.Sampling(temperature=0.0, top_p=0.5, top_k=0, seed=0, repetition_penalty=1.0),
        geometry=pb.Geometry(preset=pb.GEOMETRY_PRESET_EXACT_FAST),
        timeout_s=9.0,
        first_audio_timeout_s=1.0,
        priority=pb.PRIORITY_BATCH,
        text_options=pb.TextOptions(continuity=pb.CONTINUITY_ROLLING),
    )


def test_a_geometry_of_ones_own_is_passed_on() -> None:
    shape = pb.Geometry(preset=pb.GEOMETRY_PRESET_CUSTOM, codec_chunk_frames=12, ramp_frames=[2, 4])
    assert build_start({"geometry": shape}).geometry == shape


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("geometry", "round", "exact, exact-fast, v1, v2, custom"),
        ("geometry", "unspecified", "'unspecified' is not known"),
        ("encoding", "mp3", "pcm-s16le, wav"),
        ("priority", 3, "interactive, batch"),
        ("seed", "seven", "'seven' does not fit"),
        ("seed", 1 << 63, "does not fit"),
        ("top_k", 1.5, "does not fit"),
        ("voice", 5, "does not fit"),
        ("colour", "red", "no such setting; there are continuity, encoding"),
    ],
)
def test_what_cannot_be_sent_names_the_field_and_the_way_out(key: str, value: Any, words: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{key}: .*{words}") as refusal:
        build_start({key: value})  # type: ignore[misc]
    assert refusal.value.violations[0].field == key
