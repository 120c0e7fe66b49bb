"""Quotas by key over real sockets: one key's use is no other's, and nothing is lost by a refusal."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from google.rpc import error_details_pb2
from prometheus_client import CollectorRegistry

from talkwire import ResourceExhausted, SpeechClient
from talkwire.v1 import speech_pb2 as pb
from talkwire_server.security.tokens import line_of

TEXT = "Hello there. "
ALICE, BOB = ((("authorization", f"Bearer secret-{name}"),) for name in "ab")


@pytest.fixture
async def served(serve: Callable[..., Awaitable[Any]], tmp_path: Path) -> Any:
    tokens = tmp_path / "tokens"
    tokens.write_text("\n".join((line_of("alice", "secret-a"), line_of("bob", "secret-b"))))
    quotas = ("server.quotas.default.live_utterances=1", "server.quotas.default.characters_per_minute=40")
    return await serve(f"server.auth.tokens_file={tokens}", *quotas)


def refusals(served: Any) -> float | None:
    """How many the quota's were."""
    registry: CollectorRegistry = served.app.admission.metrics.registry
    return registry.get_sample_value("talkwire_refusals_total", {"reason": "QUOTA"})


def refusal(status: Any) -> tuple[str, float]:
    """Reason, and when to come back."""
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    for each in status.details:
        each.Unpack(info)
        each.Unpack(retry)
    return info.reason, retry.retry_delay.ToTimedelta().total_seconds()


async def test_a_key_that_has_all_its_utterances_is_refused_and_no_other(served: Any) -> None:
    served.stages.hold()
    first, second, other = (served.converse(metadata=who) for who in (ALICE, ALICE, BOB))
    for caller in (first, other):
        await caller.send("u", start=pb.Start())
        await caller.until("started")
    await second.send("v", start=pb.Start())
    reason, retry_s = refusal((await second.receive()).failed)
    assert reason == "QUOTA"
    assert retry_s > 0
    await first.send("u", abort=pb.Abort())
    await first.until("aborted")
    await second.send("w", start=pb.Start())
    await second.until("started")


async def test_text_beyond_the_quota_is_not_taken_and_the_utterance_lives(served: Any) -> None:
    caller, other = (served.converse(metadata=who) for who in (ALICE, BOB))
    for each in (caller, other):
        await each.send("u", start=pb.Start())
        for _ in range(3):
            await each.send("u", text=pb.TextIncrement(text=TEXT))
    await caller.send("u", text=pb.TextIncrement(text=TEXT))
    refused = (await caller.until("error"))[-1].error
    reason, retry_s = refusal(refused)
    assert reason == "QUOTA"
    assert 0 < retry_s < 60
    assert refusals(served) == 1
    for each in (caller, other):
        await each.send("u", end=pb.End())
        finished = (await each.until("finished"))[-1].finished
        assert finished.statistics.character_count == 3 * len(TEXT)


async def test_a_text_of_more_than_a_minute_is_refused_whole(served: Any) -> None:
    call = served.stub.Synthesize(pb.SynthesizeRequest(text=TEXT * 10), metadata=ALICE)
    with pytest.raises(Exception, match="130 characters, characters_per_minute is 40"):
        await call.read()
    assert refusals(served) == 1
    await served.idle()
    assert len(served.app.admission.ledger) == 0


async def test_our_client_says_that_text_is_missing(served: Any, tmp_path: Path) -> None:
    async with SpeechClient(f"127.0.0.1:{served.app.port}", token="secret-a") as client, client.converse() as stream:
        utterance = stream.utterance()
        for _ in range(4):
            await utterance.push(TEXT)
        await utterance.end()
        with pytest.raises(ResourceExhausted) as refused:
            await utterance.speech()
        assert refused.value.reason == "QUOTA"
        assert refused.value.retry_after_s
        assert (await utterance.speech()).statistics.character_count == 3 * len(TEXT)
    wav = tmp_path / "speech.wav"
    for options in ((), ("--stream",)):
        command = (sys.executable, "-m", "talkwire.cli", "say", TEXT * 4, "-o", wav, *options)
        to = ("--target", f"127.0.0.1:{served.app.port}")
        process = await asyncio.create_subprocess_exec(
            *command, *to, stderr=asyncio.subprocess.PIPE, env={**os.environ, "TALKWIRE_TOKEN": "secret-b"}
        )
        _, err = await process.communicate()
        assert process.returncode == 1
        assert b"characters_per_minute is 40 (try again in " in err
        assert wav.exists() == bool(options)  # of what was taken, some may have been heard


async def test_nobody_is_told_who_may_call(served: Any, tmp_path: Path) -> None:
    info = await served.stub.GetServerInfo(pb.GetServerInfoRequest(), metadata=BOB)
    assert '"characters_per_minute":40' not in info.deploy_json
    assert str(tmp_path) not in str(info)
