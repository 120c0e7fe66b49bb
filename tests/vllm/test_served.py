"""A whole server over vLLM: the same audio as over the embedded runner, and plain words where vLLM refuses."""

from __future__ import annotations

import os

import pytest

from support.pcm import same
from talkwire import SpeechClient
from tools.server import serving

pytestmark = pytest.mark.skipif(os.environ.get("TALKWIRE_TEST_RUNNER", "v1") != "v1", reason="the server has no shim")
TEXTS = ("The kettle is on, and the tea will be ready soon.", "Who is there?", "Not today, thank you.")


async def spoken(runner: str) -> list[bytes]:
    sets = ("--set", f"talker.model_runner={runner}", "--set", "talker.dtype=float32")
    with serving("--profile", "demo", "--log-level", "warning", *sets) as server:
        async with SpeechClient(server.target) as client:
            assert (await client.info()).runner == runner
            return [(await client.speak(text, seed=seed, geometry="exact")).audio for seed, text in enumerate(TEXTS)]


async def test_through_the_server_it_is_the_same_audio() -> None:
    ours, theirs = await spoken("v1"), await spoken("embedded")
    assert all(map(same, ours, theirs))


def test_what_vllm_refuses_is_said_with_its_reason_and_a_way_out() -> None:
    with (
        pytest.raises(
            RuntimeError, match=r"vLLM refuses model_runner v2: .*Triton.*; set model_runner: v1, or embedded"
        ),
        serving("--profile", "demo", "--set", "talker.model_runner=v2"),
    ):
        pass
