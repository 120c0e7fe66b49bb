"""The supervisor and its processes, with stages that need no model (`support.stage_doubles`)."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.heard import Heard
from support.stage_doubles import BUILDERS, CRASH, PRINT, STUCK
from talkwire_pipeline.deploy import Deploy
from talkwire_pipeline.deploy.schema import Codec, Codes, Connectors, Stages, Talker
from talkwire_pipeline.errors import CheckpointError, UnavailableError
from talkwire_pipeline.geometry import PRESETS
from talkwire_pipeline.messages import (
    Abort,
    Audio,
    CodecDone,
    Open,
    Released,
    StageName,
    TalkerDone,
)
from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.supervisor import Limits, Supervisor

QUICK = Limits(ping_s=0.05, backoff_s=0.01, max_backoff_s=0.02, starts=2, stop_s=30.0)
STAGES: tuple[StageName, StageName] = ("talker", "codec")
SMALL_RINGS = Deploy(connectors=Connectors(codes=Codes(capacity_bytes=4096)))


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture(autouse=True)
def _children_import_and_log_as_we_do(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    caplog.set_level(logging.INFO)  # before a stage starts, which is told the level


@pytest.fixture
async def stages(heard: Heard) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(Deploy(), limits=QUICK, builders=BUILDERS)
    await supervisor.start(heard.on_message, heard.on_state)
    yield supervisor
    await supervisor.close()


def an_open(generation: int, wish: int = 0, rows: int = 5, samples_a_row: int = 3) -> Open:
    return Open(
        generation=generation,
        prompt=np.array([wish], np.int32),
        sampling=Sampling(),
        max_rows=rows,
        geometry=PRESETS["exact"],
        credit_samples=samples_a_row,
    )


async def speak(stages: Supervisor, heard: Heard, generation: int, **wishes: int) -> np.ndarray[Any, Any]:
    """The generation's whole audio, its positions checked."""
    stages.send("talker", an_open(generation, **wishes))
    await heard.until(lambda: heard.of(CodecDone, generation) and heard.of(TalkerDone, generation))
    return heard.audio(generation)


def processes_of(stages: Supervisor) -> list[int]:
    return [stages.pid(stage) for stage in STAGES]


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def proc(pid: int, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


def runs(pid: int) -> bool:
    return pid > 0 and Path(f"/proc/{pid}").exists()


async def test_a_generation_passes_through_all_edges(stages: Supervisor, heard: Heard) -> None:
    audio = await speak(stages, heard, 1, rows=4, samples_a_row=2)
    np.testing.assert_array_equal(audio, np.repeat(np.arange(4, dtype=np.float32), 2))
    # Two edges: either message may be first.
    others = [(stage, type(each)) for stage, each in heard.messages if not isinstance(each, Audio)]
    assert sorted(others, key=lambda each: each[0]) == [("codec", CodecDone), ("talker", TalkerDone)]
    assert stages.facts("talker") == {"slots": 8}
    assert stages.facts("codec") == {"slots": 64}


async def test_states_are_told(stages: Supervisor, heard: Heard) -> None:
    assert [state for stage, state in heard.states if stage == "talker"] == ["starting", "ready"]
    assert [state for stage, state in heard.states if stage == "codec"] == ["starting", "ready"]
    assert stages.state("talker") == stages.state("codec") == "ready"


async def test_the_processes_are_named_and_stay_below_the_server(stages: Supervisor) -> None:
    for stage, pid in zip(STAGES, processes_of(stages), strict=True):
        assert proc(pid, "comm").decode() == f"talkwire-{stage}\n"
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, pid) == min(own + 10, 19)
        assert b"OMP_NUM_THREADS=1\0" in proc(pid, "environ")


async def test_logs_prints_and_warnings_are_forwarded(
    stages: Supervisor, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    await speak(stages, heard, 7, wish=PRINT)
    await stages.close()
    records = {record.getMessage(): record for record in caplog.records}
    assert records["a record of 7"].name == "talkwire.double"
    assert records["a record of 7"].levelno == logging.INFO
    assert records["a library's print"].levelno == logging.WARNING
    assert records["a library's print"].name == "talkwire.stage.talker"
    assert any("UserWarning: a library's warning" in text for text in records)


async def test_a_full_ring_loses_nothing(heard: Heard) -> None:
    stages = Supervisor(SMALL_RINGS, limits=QUICK, builders=BUILDERS)
    await stages.start(heard.on_message, heard.on_state)
    audio = await speak(stages, heard, 1, rows=2000, samples_a_row=1)
    np.testing.assert_array_equal(audio, np.arange(2000, dtype=np.float32))
    await stages.close()


async def test_commands_are_heard_while_a_full_ring_holds_the_steps_back(heard: Heard) -> None:
    stages = Supervisor(SMALL_RINGS, limits=QUICK, builders=BUILDERS)
    await stages.start(heard.on_message, heard.on_state)
    stages.send("talker", an_open(1, wish=STUCK, rows=2000))
    stages.send("talker", Abort(generation=9))
    await heard.until(lambda: heard.of(Released, 9))
    assert not heard.of(TalkerDone, 1)
    os.kill(stages.pid("codec"), signal.SIGKILL)
    await heard.until(lambda: heard.states[-2:] == [("codec", "starting"), ("codec", "ready")])
    assert len(await speak(stages, heard, 2, rows=2000, samples_a_row=1)) == 2000
    await stages.close()


@pytest.mark.parametrize("stage", STAGES)
async def test_a_killed_stage_is_told_to_the_other_and_comes_back(
    stages: Supervisor, heard: Heard, stage: StageName, caplog: pytest.LogCaptureFixture
) -> None:
    await speak(stages, heard, 1)
    killed = stages.pid(stage)
    os.kill(killed, signal.SIGKILL)
    await heard.until(lambda: heard.states[-1] == (stage, "ready") and len(heard.states) > 4)
    assert heard.states[-3:] == [(stage, "down"), (stage, "starting"), (stage, "ready")]
    assert stages.fault(stage).startswith("killed by SIGKILL")
    assert stages.pid(stage) not in (0, killed)
    assert len(await speak(stages, heard, 2)) == 15
    await stages.close()
    told = [record.getMessage() for record in caplog.records if record.name == "talkwire.double"]
    assert told[-2:] == [f"{stage} is down", f"{stage} is up"]


async def test_a_codec_that_wakes_late_drops_what_the_dead_talker_left_and_no_more(
    stages: Supervisor, heard: Heard
) -> None:
    codec, talker = stages.pid("codec"), stages.pid("talker")
    os.kill(codec, signal.SIGSTOP)
    stages.send("talker", an_open(1))
    await heard.until(lambda: heard.of(TalkerDone, 1))
    os.kill(talker, signal.SIGKILL)
    await heard.until(lambda: heard.states[-1] == ("talker", "ready") and len(heard.states) > 4)
    stages.send("talker", an_open(2))
    await heard.until(lambda: heard.of(TalkerDone, 2))
    os.kill(codec, signal.SIGCONT)
    await heard.until(lambda: heard.of(CodecDone, 2))
    assert len(heard.audio(2)) == 15


async def test_what_goes_to_a_stage_that_is_down_is_dropped(stages: Supervisor, heard: Heard) -> None:
    os.kill(stages.pid("talker"), signal.SIGKILL)
    await heard.until(lambda: ("talker", "down") in heard.states)
    stages.send("talker", an_open(1))
    await heard.until(lambda: heard.states[-1] == ("talker", "ready"))
    await speak(stages, heard, 2)
    assert not heard.of(TalkerDone, 1)


async def test_a_crash_leaves_its_words(stages: Supervisor, heard: Heard, caplog: pytest.LogCaptureFixture) -> None:
    stages.send("talker", an_open(1, wish=CRASH))
    await heard.until(lambda: ("talker", "down") in heard.states)
    assert stages.fault("talker") == "INTERNAL: RuntimeError: asked to crash"
    assert "in take" in caplog.text
    await heard.until(lambda: heard.states[-1] == ("talker", "ready"))


async def test_a_stage_that_owes_pongs_is_killed(stages: Supervisor, heard: Heard) -> None:
    stages.watch(True)
    stages.send("talker", an_open(1, wish=STUCK))
    await heard.until(lambda: heard.states[-1] == ("codec", "ready") and ("codec", "down") in heard.states)
    assert stages.fault("codec") == "answered no ping for 0.25 s"
    stages.watch(False)
    assert len(await speak(stages, heard, 2)) == 15
    assert stages.stats("talker")["steps"] > 0
    assert stages.stats("talker")["edge:codes:messages_total"] > 0


async def test_a_stage_that_does_not_answer_is_told_before_it_is_ended(
    stages: Supervisor, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("talkwire_pipeline.stages.STALLED_S", 0.1)
    stages.watch(True)
    os.kill(stages.pid("codec"), signal.SIGSTOP)
    await heard.until(lambda: heard.states.count(("codec", "ready")) == 2)
    assert stages.health("codec").stalled
    await heard.until(lambda: heard.states[-1] == ("codec", "ready") and ("codec", "down") in heard.states)
    assert not stages.health("codec").stalled
    stages.watch(False)


async def test_a_stage_with_too_much_memory_is_started_again(heard: Heard) -> None:
    sections = Stages(talker=Talker(), codec=Codec(memory_limit_mib=1))
    stages = Supervisor(Deploy(stages=sections), limits=QUICK, builders=BUILDERS)
    await stages.start(heard.on_message, heard.on_state)
    try:
        stages.watch(True)
        await heard.until(lambda: ("codec", "down") in heard.states)
        assert re.fullmatch(r"uses \d+ MiB of memory, more than memory_limit_mib: 1", stages.fault("codec"))
        assert stages.state("talker") == "ready"
        await heard.until(lambda: heard.states[-1] == ("codec", "starting"))
        assert stages.health("codec").restarts == 1
    finally:
        await stages.close()


async def test_a_stage_that_cannot_load_says_why(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_descriptors()
    monkeypatch.setenv("STAGE_DOUBLE", "broken")
    stages = Supervisor(Deploy(), limits=QUICK, builders=BUILDERS)
    with pytest.raises(CheckpointError, match=r"^config.json cannot be read$"):
        await stages.start(heard.on_message, heard.on_state)
    assert processes_of(stages) == [0, 0]
    assert open_descriptors() == before


@pytest.mark.parametrize(
    ("fault", "ready_s", "words"),
    [
        ("foreign", 60.0, "stage: INTERNAL: KeyError: 'no such part'"),
        ("exit", 60.0, "stage: exited with status 3"),
        ("silent", 0.3, "stage: was not ready within 0.3 s"),
    ],
)
async def test_a_failed_start_is_unavailable(
    heard: Heard, monkeypatch: pytest.MonkeyPatch, fault: str, ready_s: float, words: str
) -> None:
    monkeypatch.setenv("STAGE_DOUBLE", fault)
    sections = Stages(talker=Talker(start_timeout_s=ready_s), codec=Codec(start_timeout_s=ready_s))
    stages = Supervisor(Deploy(stages=sections), limits=QUICK, builders=BUILDERS)
    with pytest.raises(UnavailableError) as caught:
        await stages.start(heard.on_message, heard.on_state)
    assert words in caught.value.message


async def test_a_stage_that_cannot_come_back_is_given_up(
    stages: Supervisor, heard: Heard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("STAGE_DOUBLE", "broken")
    os.kill(stages.pid("codec"), signal.SIGKILL)
    await heard.until(lambda: heard.states.count(("codec", "down")) == 3)
    assert stages.state("codec") == "down"
    assert stages.fault("codec") == "CHECKPOINT: config.json cannot be read"
    assert "given up after 2 starts" in caplog.text


async def test_close_leaves_nothing(heard: Heard) -> None:
    before = open_descriptors(), set(os.listdir("/dev/shm"))
    stages = Supervisor(Deploy(), limits=QUICK, builders=BUILDERS)
    await stages.start(heard.on_message, heard.on_state)
    pids = processes_of(stages)
    assert all(map(runs, pids))
    await speak(stages, heard, 1)
    await asyncio.gather(stages.close(), stages.close())
    await stages.close()
    assert not any(map(runs, pids))
    assert (open_descriptors(), set(os.listdir("/dev/shm"))) == before
    assert heard.states[-1][1] == "ready"


async def test_restarts_leave_no_descriptors(stages: Supervisor, heard: Heard) -> None:
    before = open_descriptors()
    for _ in range(3):
        heard.states.clear()
        os.kill(stages.pid("talker"), signal.SIGKILL)
        await heard.until(lambda: ("talker", "ready") in heard.states)
    assert open_descriptors() == before


async def test_a_cancelled_start_leaves_nothing(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_descriptors()
    monkeypatch.setenv("STAGE_DOUBLE", "silent")
    stages = Supervisor(Deploy(), limits=QUICK, builders=BUILDERS)
    start = asyncio.create_task(stages.start(heard.on_message, heard.on_state))
    await heard.until(lambda: len(heard.states) == 2)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert processes_of(stages) == [0, 0]
    assert open_descriptors() == before


async def test_a_stage_that_does_not_stop_is_ended(heard: Heard) -> None:
    limits = Limits(stop_s=0.1, terminate_s=30.0)
    stages = Supervisor(Deploy(), limits=limits, builders=BUILDERS)
    await stages.start(heard.on_message, heard.on_state)
    pids = processes_of(stages)
    stages.send("talker", an_open(1, wish=STUCK))
    await heard.until(lambda: heard.of(TalkerDone, 1))
    await stages.close()
    assert not any(map(runs, pids))


PARENT = """
import asyncio
from support.stage_doubles import BUILDERS
from talkwire_pipeline.deploy import Deploy
from talkwire_pipeline.deploy.schema import Codec, Stages, Talker
from talkwire_pipeline.supervisor import Supervisor

async def main():
    stages = Supervisor(Deploy(), builders=BUILDERS)
    task = asyncio.create_task(stages.start(lambda *_: None, lambda *_: None))
    while not all(stages.pid(each) for each in ("talker", "codec")):
        await asyncio.sleep(0)
    if {wait}:
        await task
    print(stages.pid("talker"), stages.pid("codec"), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("when", ["ready", "loading"])
def test_stages_end_with_the_server_even_while_they_load(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if when == "loading":
        monkeypatch.setenv("STAGE_DOUBLE", "silent")
    code = PARENT.format(wait=when == "ready")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        handles = [os.pidfd_open(pid) for pid in pids]
        parent.kill()
    for handle in handles:
        assert select.select([handle], [], [])[0]
        os.close(handle)


def test_the_server_side_needs_no_torch() -> None:
    code = "import sys, talkwire_pipeline.supervisor, talkwire_pipeline.fakes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
