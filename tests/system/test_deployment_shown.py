"""One source: what is configured is what is printed, reported, measured and done."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from support.observed import Observed
from talkwire import Audio, SpeechClient
from talkwire_pipeline.geometry import SAMPLES_PER_FRAME
from talkwire_server.cli import main
from tools.server import serving

CHUNK_FRAMES = 12
SETTING = f"connectors.codes.codec_chunk_frames={CHUNK_FRAMES}"
TEXT = "It is said in many small pieces, each of them no longer than what was asked for when the server was started."


async def test_a_chunk_size_is_the_same_in_every_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--set", SETTING]) == 0
    assert re.search(rf"codec_chunk_frames: {CHUNK_FRAMES} +# --set {SETTING}", capsys.readouterr().out)
    with serving("--metrics-port", "0", "--set", SETTING) as server:
        async with SpeechClient(server.target) as client:
            info = await client.info()
            audio = [event async for event in client.synthesize(TEXT) if isinstance(event, Audio)]
        figures = Observed(server).figures()
    assert info.geometry.codec_chunk_frames == CHUNK_FRAMES
    assert json.loads(info.deploy_json)["connectors"]["codes"]["codec_chunk_frames"] == CHUNK_FRAMES
    assert info.provenance["connectors.codes.codec_chunk_frames"] == f"--set {SETTING}"
    assert info.runner_features["device_codes"]
    assert figures['talkwire_geometry_frames{part="chunk"}'] == CHUNK_FRAMES
    frames = Counter(len(event.data) // (2 * SAMPLES_PER_FRAME) for event in audio)
    assert frames.most_common(1)[0][0] == CHUNK_FRAMES
    assert max(frames) <= CHUNK_FRAMES * 1.5  # the last one of a segment takes a short rest with it
