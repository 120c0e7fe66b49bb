"""The real talker and codec as processes, with the demo voice."""

from __future__ import annotations

import os
import signal

import numpy as np
import numpy.typing as npt
import pytest

from support.heard import Heard
from talkwire_pipeline.checkpoint import resolve_checkpoint
from talkwire_pipeline.deploy import load
from talkwire_pipeline.errors import CheckpointError, DeployError, TalkwireError
from talkwire_pipeline.geometry import PRESETS, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME
from talkwire_pipeline.messages import Abort, Audio, CodecDone, Open, Released, StageName, TalkerDone
from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.supervisor import Limits, Supervisor
from talkwire_pipeline.text.prompt import PromptBuilder

LIMITS = Limits(backoff_s=0.01)
TEXT = "the train leaves at nine in the morning."


@pytest.fixture
def prompt() -> npt.NDArray[np.int32]:
    return PromptBuilder(resolve_checkpoint("demo")).build(TEXT).ids


def left_open() -> tuple[set[str], set[str]]:
    """What the process holds open, and the names in shared memory."""
    links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    return {os.readlink(link) for link in links if os.path.islink(link)}, set(os.listdir("/dev/shm"))


def an_open(generation: int, prompt: npt.NDArray[np.int32]) -> Open:
    return Open(
        generation=generation,
        prompt=prompt,
        sampling=Sampling(seed=1),
        max_rows=400,
        geometry=PRESETS["exact"],
        credit_samples=60 * SAMPLE_RATE_HZ,
    )


def runs(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


async def speak(stages: Supervisor, heard: Heard, message: Open) -> npt.NDArray[np.float32]:
    stages.send("talker", message)
    number = message.generation
    await heard.until(lambda: heard.of(CodecDone, number) and heard.of(TalkerDone, number))
    audio = heard.audio(number)
    (done,), (said,) = heard.of(TalkerDone, number), heard.of(CodecDone, number)
    assert said.samples == len(audio) == (done.rows - 7) * SAMPLES_PER_FRAME
    assert done.reason == said.reason == "eos"
    return audio


async def test_they_speak_stop_and_come_back(prompt: npt.NDArray[np.int32]) -> None:
    heard = Heard()
    before = left_open()
    stages = Supervisor(load("demo"), limits=LIMITS)
    await stages.start(heard.on_message, heard.on_state)
    pids = [stages.pid("talker"), stages.pid("codec")]
    try:
        for pid, facts in zip(pids, (stages.facts("talker"), stages.facts("codec")), strict=True):
            assert facts["parameters"] > 1_000_000
            assert (facts["device"], facts["dtype"], facts["pid"]) == ("cpu", "float32", pid)
            assert set(facts["versions"]) == {"torch", "transformers"}
        first = await speak(stages, heard, an_open(1, prompt))
        assert 1.0 < len(first) / SAMPLE_RATE_HZ < 6.0
        assert np.sqrt(np.mean(first**2)) > 0.01

        stages.send("talker", an_open(2, prompt))
        await heard.until(lambda: heard.of(Audio, 2))
        stages.send("talker", Abort(generation=2))
        stages.send("codec", Abort(generation=2))
        await heard.until(lambda: len(heard.of(Released, 2)) == 2)
        said = len(heard.of(Audio, 2))
        np.testing.assert_allclose(await speak(stages, heard, an_open(3, prompt)), first, atol=1e-5)
        assert len(heard.of(Audio, 2)) == said

        victims: tuple[StageName, StageName] = ("talker", "codec")
        for number, stage in enumerate(victims, 4):
            heard.states.clear()
            os.kill(stages.pid(stage), signal.SIGKILL)
            await heard.until(lambda: [state for _, state in heard.states] == ["down", "starting", "ready"])
            np.testing.assert_allclose(await speak(stages, heard, an_open(number, prompt)), first, atol=1e-5)
        pids += [stages.pid("talker"), stages.pid("codec")]
    finally:
        await stages.close()
    assert not any(map(runs, pids))
    assert left_open() == before


@pytest.mark.parametrize(
    ("override", "error", "words"),
    [
        ("model.checkpoint=/no/such/folder", CheckpointError, "there is no folder /no/such/folder"),
        ("talker.model_runner=v1", DeployError, "install the extra .*, or set model_runner: embedded"),
    ],
)
async def test_what_cannot_be_loaded_is_said(override: str, error: type[TalkwireError], words: str) -> None:
    stages = Supervisor(load("demo", overrides=[override]), limits=LIMITS)
    with pytest.raises(error, match=words):
        await stages.start(lambda *_: None, lambda *_: None)
