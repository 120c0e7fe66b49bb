"""What `Converse` and `Synthesize` answer when all is well."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np
import pytest

from talkwire.v1 import speech_pb2 as pb

TEXT = "Hello there, this is a test. And here is one more sentence for it."


def names(responses: list[pb.ConverseResponse]) -> list[str]:
    return [str(each.WhichOneof("event")) for each in responses]


def audio(responses: list[Any]) -> bytes:
    return b"".join(each.audio.data for each in responses if each.WhichOneof("event") == "audio")


async def test_started_then_audio_then_exactly_one_end(served: Any) -> None:
    caller = served.converse()
    await caller.speak("u", TEXT)
    got = await caller.rest()
    assert names(got)[0] == "started"
    assert names(got)[-1] == "finished"
    assert sum(name in {"finished", "aborted", "failed"} for name in names(got)) == 1
    assert {each.utterance_id for each in got} == {"u"}


async def test_started_says_what_is_in_force(served: Any) -> None:
    caller = served.converse()
    await caller.speak("u", TEXT, sampling=pb.Sampling(seed=7))
    started = (await caller.rest())[0].started
    assert (started.sample_rate_hz, started.encoding, started.seed) == (24_000, pb.AUDIO_ENCODING_PCM_S16LE, 7)
    assert started.geometry.preset == pb.GEOMETRY_PRESET_EXACT_FAST
    assert started.geometry.codec_chunk_frames == 25
    assert len(bytes.fromhex(started.server_id)) == 16
    assert started.runner


async def test_audio_has_no_gaps_and_the_count_is_right(served: Any) -> None:
    caller = served.converse()
    await caller.speak("u", TEXT)
    got = await caller.rest()
    position = 0
    pieces = [each.audio for each in got if each.WhichOneof("event") == "audio"]
    for sequence, piece in enumerate(pieces):
        assert (piece.sequence, piece.first_sample) == (sequence, position)
        assert len(piece.data) % 2 == 0
        position += len(piece.data) // 2
    statistics = got[-1].finished.statistics
    assert position == statistics.sample_count > 0
    assert position % 960 == 0
    assert statistics.character_count == len(TEXT)
    assert statistics.segment_count >= 1
    assert statistics.first_payload_s == pytest.approx(len(pieces[0].data) / 2 / 24_000)


async def test_audio_is_sound_not_noise_from_reused_memory(served: Any) -> None:
    caller = served.converse()
    await caller.speak("u", TEXT)
    samples = np.frombuffer(audio(await caller.rest()), "<i2")
    assert 8000 < np.abs(samples).max() < 11_000  # the fake's sine has 0.3 of full scale


async def test_same_seed_same_audio_and_another_another(served: Any) -> None:
    caller = served.converse()
    for utterance_id, seed in (("a", 1), ("b", 1), ("c", 2)):
        await caller.speak(utterance_id, TEXT, sampling=pb.Sampling(seed=seed))
    got = await caller.rest()
    a, b, c = (audio([each for each in got if each.utterance_id == name]) for name in "abc")
    assert a == b
    assert a != c


async def test_wav_begins_with_its_header_and_sample_counts_leave_it_out(served: Any) -> None:
    caller = served.converse()
    await caller.speak("pcm", TEXT, sampling=pb.Sampling(seed=1))
    form = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_WAV, sample_rate_hz=24_000)
    await caller.speak("wav", TEXT, sampling=pb.Sampling(seed=1), audio_format=form)
    got = await caller.rest()
    pcm, wav = (audio([each for each in got if each.utterance_id == name]) for name in ("pcm", "wav"))
    assert wav[44:] == pcm
    with wave.open(io.BytesIO(wav)) as file:
        assert (file.getframerate(), file.getnchannels()) == (24_000, 1)
    pieces = [each.audio for each in got if each.utterance_id == "wav" and each.WhichOneof("event") == "audio"]
    assert pieces[0].first_sample == 0
    assert pieces[1].first_sample == (len(pieces[0].data) - 44) // 2


async def test_text_in_pieces_is_the_same_as_at_once(served: Any) -> None:
    caller = served.converse()
    await caller.speak("whole", TEXT, sampling=pb.Sampling(seed=3))
    await caller.send("pieces", start=pb.Start(sampling=pb.Sampling(seed=3)))
    for place in range(0, len(TEXT), 5):
        await caller.send("pieces", text=TEXT[place : place + 5])
    await caller.send("pieces", end=pb.End())
    got = await caller.rest()
    whole, pieces = (
        [each for each in got if each.utterance_id == name and each.WhichOneof("event") == "timing"]
        for name in ("whole", "pieces")
    )
    assert whole[-1].timing.spans[-1].text_end == pieces[-1].timing.spans[-1].text_end == len(TEXT)


async def test_flushed_follows_the_audio_of_what_came_before(served: Any) -> None:
    caller = served.converse()
    await caller.send("u", start=pb.Start())
    await caller.send("u", text="No full stop here")
    await caller.send("u", flush=pb.Flush())
    got = await caller.until("flushed")
    samples = len(audio(got)) // 2
    assert got[-1].flushed.end_sample == samples > 0
    assert got[-1].flushed.segment_count == 1
    await caller.send("u", text="and the rest")
    await caller.send("u", end=pb.End())
    rest = await caller.until("finished")
    assert rest[-1].finished.statistics.sample_count == samples + len(audio(rest)) // 2


async def test_half_close_ends_the_text_of_every_live_utterance(served: Any) -> None:
    caller = served.converse()
    for name in ("a", "b"):
        await caller.send(name, start=pb.Start())
        await caller.send(name, text=TEXT)
    got = await caller.rest()
    ends = {each.utterance_id: each.WhichOneof("event") for each in got}
    assert ends == {"a": "finished", "b": "finished"}


async def test_an_id_may_be_used_again_after_its_end_and_offsets_start_anew(served: Any) -> None:
    caller = served.converse()
    for _ in range(2):
        await caller.speak("u", TEXT)
        got = await caller.until("finished")
        first = next(each.audio for each in got if each.WhichOneof("event") == "audio")
        assert (first.sequence, first.first_sample) == (0, 0)
    assert await caller.rest() == []


async def test_ids_are_scoped_to_their_stream(served: Any) -> None:
    one, other = served.converse(), served.converse()
    for caller, seed in ((one, 1), (other, 2)):
        await caller.speak("same", TEXT, sampling=pb.Sampling(seed=seed))
    first, second = await one.rest(), await other.rest()
    assert (first[0].started.seed, second[0].started.seed) == (1, 2)
    assert audio(first) != audio(second)


async def test_a_stream_without_a_word_ends_well(served: Any) -> None:
    assert await served.converse().rest() == []


async def test_synthesize_sends_the_same_events_with_the_callers_id(served: Any) -> None:
    caller = served.converse()
    await caller.speak("u", TEXT, sampling=pb.Sampling(seed=5))
    conversed = await caller.rest()
    start = pb.Start(sampling=pb.Sampling(seed=5))
    got = [
        each async for each in served.stub.Synthesize(pb.SynthesizeRequest(utterance_id="s", start=start, text=TEXT))
    ]
    assert [each.WhichOneof("event") for each in got] == names(conversed)
    assert {each.utterance_id for each in got} == {"s"}
    assert audio(got) == audio(conversed)
    nameless = [each async for each in served.stub.Synthesize(pb.SynthesizeRequest(text="Hi there."))]
    assert {each.utterance_id for each in nameless} == {""}


async def test_server_info_is_the_resolved_deployment(served: Any) -> None:
    info = await served.stub.GetServerInfo(pb.GetServerInfoRequest())
    assert (info.profile, info.platform, info.runner) == ("demo", "cpu", "embedded")
    assert info.geometry.preset == pb.GEOMETRY_PRESET_EXACT_FAST
    assert (info.slot_count, info.max_live_utterances) == (8, 64)
    assert info.model.sample_rate_hz == 24_000
    assert {each.encoding for each in info.audio_formats} == {pb.AUDIO_ENCODING_PCM_S16LE, pb.AUDIO_ENCODING_WAV}
    assert '"profile":"demo"' in info.deploy_json.replace(" ", "")
    limits = {each.name: (each.lowest, each.highest) for each in info.sampling_ranges}
    assert limits["top_p"] == (0, 1)
    assert "repetition_penalty" in limits
    assert info.provenance["model.checkpoint"].startswith("profiles/demo.yaml:")
    assert info.server_version
    assert info.library_versions["grpcio"]
