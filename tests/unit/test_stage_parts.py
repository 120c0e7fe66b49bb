"""The parts around a stage's process that need none: its outbox, its configuration, its log."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Iterator

import pytest

from talkwire_pipeline.child import LogPipe
from talkwire_pipeline.connector.edge import Receiver, Sender
from talkwire_pipeline.connector.ring import Ring, RingFds
from talkwire_pipeline.deploy import Deploy, load
from talkwire_pipeline.devices import torch_device
from talkwire_pipeline.errors import CheckpointError, DeployError
from talkwire_pipeline.messages import Ping
from talkwire_pipeline.stage import logs
from talkwire_pipeline.stage.config import StageConfig, config_pipe, read_config
from talkwire_pipeline.stage.outbox import Outbox
from talkwire_pipeline.stage.process import words_of
from talkwire_pipeline.talker.stage import check_runner

# ---- outbox


@pytest.fixture
def ring() -> Iterator[Ring]:
    made = Ring.create(4096, "test")
    yield made
    made.close()


def nonces(receiver: Receiver) -> list[int]:
    return [each.message.nonce for each in receiver.receive() if isinstance(each.message, Ping)]


def test_what_finds_no_room_waits_in_order(ring: Ring) -> None:
    parked: list[bool] = []
    outbox, receiver = Outbox(Sender(ring), parked.append), Receiver(ring)
    for nonce in range(500):
        outbox.send(Ping(nonce=nonce))
    assert parked == [True]
    assert 0 < outbox.parked < 500
    came = []
    while outbox.parked:
        came += nonces(receiver)
        outbox.flush()
    assert came + nonces(receiver) == list(range(500))
    assert parked == [True, False]


def test_a_message_does_not_overtake_a_parked_one(ring: Ring) -> None:
    outbox, receiver = Outbox(Sender(ring), lambda _: None), Receiver(ring)
    nonce = 0
    while not outbox.parked:
        outbox.send(Ping(nonce=nonce))
        nonce += 1
    came = nonces(receiver)  # there is room again, and it is not flushed yet
    outbox.send(Ping(nonce=nonce))
    assert outbox.parked == 2
    outbox.flush()
    assert came + nonces(receiver) == list(range(nonce + 1))


def test_clear_drops_what_is_parked(ring: Ring) -> None:
    parked: list[bool] = []
    outbox = Outbox(Sender(ring), parked.append)
    while not outbox.parked:
        outbox.send(Ping(nonce=1))
    outbox.clear()
    outbox.clear()
    assert (outbox.parked, parked) == (0, [True, False])


# ---- configuration


def test_a_configuration_passes_through_its_pipe() -> None:
    first, second, third = (RingFds(memory=n, data=n + 1, space=n + 2) for n in (10, 20, 30))
    config = StageConfig(
        stage="codec",
        build="module:function",
        deploy=Deploy(profile="p"),
        commands=first,
        replies=second,
        codes=third,
        life=9,
        log_level=20,
    )
    assert read_config(config_pipe(config)) == config
    assert config.descriptors == (9, 10, 11, 12, 20, 21, 22, 30, 31, 32)
    assert (config.threads, config.niceness) == (1, 10)


def test_a_configuration_that_no_pipe_holds_is_refused() -> None:
    none = RingFds(memory=1, data=1, space=1)
    deploy = Deploy(profile="x" * (1 << 20))
    config = StageConfig(
        stage="codec", build="", deploy=deploy, commands=none, replies=none, codes=none, life=1, log_level=20
    )
    before = os.listdir("/proc/self/fd")
    with pytest.raises(ValueError, match="does not fit a pipe"):
        config_pipe(config)
    assert os.listdir("/proc/self/fd") == before


def test_a_stage_computes_where_the_deployment_says() -> None:
    assert torch_device("auto", "cpu").type == "cpu"


def test_a_platform_that_pytorch_does_not_have_is_refused_with_both_names() -> None:
    with pytest.raises(DeployError, match=r"for musa, and PyTorch .* finds \w+ here: --platform \w+ works"):
        torch_device("auto", "musa")


def test_v2_on_npu_is_refused_when_the_stage_starts_naming_what_works() -> None:
    with pytest.raises(DeployError, match="v2 does not run on npu: set model_runner: v1, which does"):
        check_runner(load("higgs-v3", platform="npu", overrides=["talker.model_runner=v2"], environment={}))


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            ["talker.model_runner=embedded", "talker.devices=[0, 1]"],
            r"\[0, 1\]: the embedded runner runs on one device",
        ),
        (["talker.devices=[1, 2]"], r"\[1, 2\]: several devices are numbered from 0 on"),
    ],
)
def test_devices_that_cannot_share_a_model_are_refused(override: list[str], words: str) -> None:
    with pytest.raises(DeployError, match=words):
        check_runner(load("higgs-v3", platform="cuda", overrides=override, environment={}))


def test_the_words_of_an_error_begin_with_its_reason() -> None:
    assert words_of(CheckpointError("no key x")) == "CHECKPOINT: no key x"
    assert words_of(KeyError("x")) == "INTERNAL: KeyError: 'x'"


# ---- log


async def forwarded(*pieces: bytes) -> LogPipe:
    """Forwards what is written piece by piece, then the end."""
    reading, writing = os.pipe()
    pipe = LogPipe(reading, "talker")
    for piece in pieces:
        os.write(writing, piece)
        await asyncio.sleep(0)
    os.close(writing)
    pipe.close()
    return pipe


async def test_lines_are_put_together_from_pieces(caplog: pytest.LogCaptureFixture) -> None:
    pipe = await forwarded(b"one\ntw", b"o\n\nthr", b"ee")
    assert caplog.messages == ["one", "two", "three"]
    assert pipe.last == "three"


async def test_records_keep_level_logger_and_stage(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await forwarded(b'{"level":20,"logger":"a.b","message":"hello 100 %"}\n{"level":"x"}\n\xff\n')
    first, second, third = caplog.records
    assert (first.name, first.levelno, first.getMessage()) == ("a.b", logging.INFO, "hello 100 %")
    assert first.__dict__["stage"] == "talker"
    assert (second.levelno, second.getMessage()) == (logging.WARNING, '{"level":"x"}')
    assert third.getMessage() == "\ufffd"


def test_the_formatter_writes_what_forward_reads(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.getLogger("x").makeRecord("x", logging.ERROR, "f", 1, "failed: %s", ("é",), sys.exc_info())
    line = logs.LineFormatter().format(record).encode()
    assert b"\n" not in line
    assert logs.forward("codec", line).startswith("failed: é\nTraceback")
    assert caplog.records[0].name == "x"
