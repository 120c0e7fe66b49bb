import wave
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from talkwire.audio import Event, Speech, SpeechBuilder
from talkwire.errors import Cancelled, Internal
from talkwire.listen import listen
from talkwire.v1 import speech_pb2 as pb

STARTED = pb.Started(sample_rate_hz=1000, encoding=pb.AUDIO_ENCODING_PCM_S16LE)
FINISHED = pb.Finished(reason=pb.FINISH_REASON_COMPLETE, statistics=pb.Statistics(segment_count=1))


def test_a_wav_file_holds_the_samples(tmp_path: Path) -> None:
    speech = Speech(b"\1\0\2\0\3\0", 16000, (), pb.Statistics(), capped=False)
    speech.save(tmp_path / "a.wav")
    with wave.open(str(tmp_path / "a.wav")) as file:
        assert file.getparams()[:4] == (1, 2, 16000, 3)
        assert file.readframes(9) == speech.audio


def test_a_speech_is_shown_in_a_line() -> None:
    speech = Speech(bytes(3200), 16000, (), pb.Statistics(ttfa_s=0.25), capped=False)
    assert repr(speech) == "<Speech of 0.10 s at 16000 Hz, ttfa_s 0.250>"


def test_a_file_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Speech(b"", 16000, (), pb.Statistics(), capped=False).save(tmp_path / "nowhere" / "a.wav")


def test_events_make_a_speech() -> None:
    builder = SpeechBuilder()
    spans = [pb.TimedSpan(text_end=3), pb.TimedSpan(text_end=5)]
    capped = pb.Finished(reason=pb.FINISH_REASON_CAP)
    for event in (STARTED, pb.Audio(data=b"ab"), pb.Timing(spans=spans[:1]), pb.Flushed(), pb.Audio(data=b"cd")):
        builder.add(event)
    builder.add(pb.Timing(spans=spans[1:]))
    builder.add(capped)
    speech = builder.build()
    assert (speech.audio, speech.timings, speech.capped) == (b"abcd", tuple(spans), True)
    assert speech.duration_s == pytest.approx(0.002)


def test_half_an_utterance_is_no_speech() -> None:
    builder = SpeechBuilder()
    builder.add(STARTED)
    with pytest.raises(Internal):
        builder.build()
    with pytest.raises(Cancelled):
        builder.add(pb.Aborted())


async def test_listening_measures_what_the_listener_hears() -> None:
    """On a clock of our own: audio of 0.1 s at 3.2, then nothing till 3.55, the end at 4."""
    now = [3.0]

    async def events() -> AsyncIterator[Event]:
        yield STARTED
        now[0] = 3.2
        yield pb.Audio(data=bytes(200))
        now[0] = 3.55
        yield pb.Audio(data=bytes(1800))
        now[0] = 4.0
        yield FINISHED

    heard = await listen(events(), began_s=3.0, clock=lambda: now[0])
    assert heard.ttfa_s == pytest.approx(0.2)
    assert heard.first_payload_s == pytest.approx(0.1)
    assert heard.elapsed_s == pytest.approx(1.0)
    assert heard.underrun_s == pytest.approx(0.25)
    assert heard.real_time_factor == pytest.approx(1.0)


async def test_listening_to_silence() -> None:
    async def events() -> AsyncIterator[Event]:
        yield STARTED
        yield FINISHED

    heard = await listen(events(), began_s=0.0, clock=lambda: 1.0)
    assert (heard.ttfa_s, heard.first_payload_s, heard.real_time_factor, heard.underrun_s) == (0.0, 0.0, 0.0, 0.0)
