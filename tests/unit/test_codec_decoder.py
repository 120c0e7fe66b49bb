"""The decoder: what transformers' gives, of a window only what is wanted, and as much of it as asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.codecs import TransformersCodec, demo_decoder, demo_tensors, tiny_decoder, tiny_reference
from talkwire_pipeline.codec.crop import plan
from talkwire_pipeline.geometry import CONTEXT_FRAMES, SAMPLES_PER_FRAME
from talkwire_pipeline.messages import Codes

RATIOS = (8, 5, 4, 2, 3)


def random_frames(count: int, seed: int = 0) -> Codes:
    return np.random.default_rng(seed).integers(0, 1024, (count, 8)).astype(np.int16)


@st.composite
def cuts(draw: st.DrawFn) -> tuple[int, int, int]:
    """A window's length and the wanted part of it."""
    frames = draw(st.integers(1, 40))
    start = draw(st.integers(0, frames - 1))
    return frames, start, draw(st.integers(start + 1, frames))


@settings(max_examples=25, deadline=None)
@given(cut=cuts())
def test_a_cropped_window_is_a_part_of_transformers_decode_of_that_window(cut: tuple[int, int, int]) -> None:
    frames, start, stop = cut
    window = random_frames(frames)
    expected = tiny_reference().decode(window)[start * 960 : stop * 960]
    np.testing.assert_allclose(tiny_decoder().decode(window[None], start, stop)[0], expected, atol=1e-5)


def test_the_demo_voice_decodes_as_with_transformers() -> None:
    window = random_frames(24)
    expected = TransformersCodec(*demo_tensors()).decode(window)
    assert np.abs(expected).max() > 0.05
    np.testing.assert_allclose(demo_decoder().decode(window[None], 0, 24)[0], expected, atol=1e-5)
    np.testing.assert_allclose(demo_decoder().decode(window[None], 10, 14)[0], expected[9600:13440], atol=1e-5)


def test_windows_of_a_batch_do_not_touch_each_other() -> None:
    windows = np.stack([random_frames(14, seed) for seed in range(3)])
    together = tiny_decoder().decode(windows, 4, 8)
    alone = np.concatenate([tiny_decoder().decode(window[None], 4, 8) for window in windows])
    assert together.shape == (3, 4 * SAMPLES_PER_FRAME)
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_the_decoder_sees_ten_frames_each_way_and_no_eleventh() -> None:
    way = plan(RATIOS, 100, 50, 54)
    assert (way.start, way.stop) == (50 - CONTEXT_FRAMES, 54 + CONTEXT_FRAMES)
    frames, other = random_frames(40), random_frames(40, seed=1)
    seen = frames.copy()
    seen[30] = other[30]
    unseen = frames.copy()
    unseen[31:], unseen[:10] = other[31:], other[:10]

    def decode(window: Codes) -> np.ndarray:
        return demo_decoder().decode(window[None], 20, 21)[0]

    np.testing.assert_array_equal(decode(unseen), decode(frames))
    assert (decode(seen) != decode(frames)).any()


def test_the_whole_decode_pads_its_tail_with_the_last_frame_and_cuts_that_off() -> None:
    frames = random_frames(12)
    longer = np.concatenate([frames, np.repeat(frames[-1:], 30, axis=0)])
    whole = demo_decoder().decode_whole(frames)
    assert whole.shape == (12 * SAMPLES_PER_FRAME,)
    np.testing.assert_allclose(whole, demo_decoder().decode(longer[None], 0, 12)[0], atol=1e-6)
    bare = demo_decoder().decode(frames[None], 0, 12)[0]
    assert np.abs(whole - bare).max() > 1e-3
    assert demo_decoder().decode_whole(frames[:0]).shape == (0,)


@pytest.mark.parametrize(("start", "stop"), [(3, 3), (-1, 2), (2, 6)])
def test_frames_that_are_not_in_the_window_are_refused(start: int, stop: int) -> None:
    with pytest.raises(ValueError, match="are not in a window of 5"):
        tiny_decoder().decode(random_frames(5)[None], start, stop)
