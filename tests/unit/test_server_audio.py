from __future__ import annotations

import io
import wave

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from talkwire_server.audio import UNKNOWN_SIZE, Encoder, Format, pcm_s16le, wav_header


def test_full_scale_and_beyond_is_clipped_not_wrapped() -> None:
    samples = np.array([0.0, 1.0, -1.0, 1.5, -1.5, 0.5], dtype=np.float32)
    assert np.frombuffer(pcm_s16le(samples), "<i2").tolist() == [0, 32767, -32767, 32767, -32768, 16384]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=8), st.sampled_from(["pcm_s16le", "wav"]))
def test_pieces_join_to_the_whole_and_hold_whole_samples(sizes: list[int], encoding: str) -> None:
    whole = np.linspace(-1, 1, sum(sizes), dtype=np.float32)
    encoder = Encoder(Format(encoding))  # type: ignore[arg-type]
    pieces = [encoder.encode(piece) for piece in np.split(whole, np.cumsum(sizes)[:-1])] if sizes else []
    header = wav_header(24_000) if encoding == "wav" and sizes else b""
    assert b"".join(pieces) == header + pcm_s16le(whole)
    assert all(len(piece) % 2 == 0 for piece in pieces)


def test_the_streamed_header_is_the_canonical_44_bytes() -> None:
    header = wav_header(24_000)
    assert len(header) == 44
    assert header[:4] + header[8:16] == b"RIFFWAVEfmt "
    assert header[36:40] == b"data"
    assert int.from_bytes(header[4:8], "little") == int.from_bytes(header[40:44], "little") == UNKNOWN_SIZE


def test_a_known_size_makes_a_file_that_others_read() -> None:
    data = pcm_s16le(np.zeros(480, np.float32))
    with wave.open(io.BytesIO(wav_header(24_000, len(data)) + data)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth(), file.getnframes()) == (24_000, 1, 2, 480)
