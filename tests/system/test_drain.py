"""Signals to a real server: it leaves when all is said, when its time is over, or at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from support.callers import heard, refused, rest
from support.observed import NOT_SERVING, SERVING, Health, Observed, watching
from support.pcm import same
from talkwire import Audio, Options, SpeechClient, Started
from talkwire.listen import say
from talkwire.stream import Stream
from talkwire.utterance import Utterance
from tools.server import Server, serving

ARGUMENTS = ("--profile", "demo", "--metrics-port", "0", "--log-level", "warning")
SHORT = "A short one. "
TEXT = "Nobody is cut off in the middle of a sentence, whoever wants the machine back, and for whatever reason. " * 2
SPOKEN_S = 10.0
SAME: Options = {"seed": 5, "geometry": "exact"}
LIMIT_S = 60.0
"""Far more than it takes, and far less than `PATIENT` allows."""
PATIENT = "server.drain_timeout_s=600"


@dataclass(frozen=True, slots=True)
class Leaving:
    """A server that is about to get signals, a stream to it, and what its health service says."""

    server: Server
    client: SpeechClient
    stream: Stream
    health: Health

    async def open_end(self) -> Utterance:
        """An utterance that is spoken, and that lives until its caller says that this is all."""
        utterance = self.stream.utterance()
        await utterance.push(SHORT)
        await utterance.flush()
        return await heard(utterance)

    async def told(self) -> None:
        """A SIGTERM, and it has been taken."""
        self.server.process.send_signal(signal.SIGTERM)
        await self.health.becomes(NOT_SERVING)

    async def left(self) -> int:
        """The exit status, when the server and both stages are gone."""
        return await asyncio.to_thread(self.server.process.wait, LIMIT_S)


@asynccontextmanager
async def leaving(setting: str) -> AsyncIterator[Leaving]:
    with serving(*ARGUMENTS, "--set", setting) as server:
        observed = Observed(server)
        stages = [os.pidfd_open(observed.pid_of(name)) for name in ("talker", "codec")]
        target = server.target
        async with SpeechClient(target) as client, client.converse() as stream, watching(target) as health:
            await health.becomes(SERVING)
            yield Leaving(server, client, stream, health)
        for stage in stages:
            assert gone(stage)
            os.close(stage)


def gone(process: int) -> bool:
    """Whether the process of a pidfd has ended."""
    try:
        signal.pidfd_send_signal(process, 0)
    except ProcessLookupError:
        return True
    return False


async def test_what_is_being_said_is_said_to_the_end_and_nothing_new_begins() -> None:
    async with leaving(PATIENT) as it:
        undisturbed = await it.client.speak(TEXT, **SAME)
        assert undisturbed.duration_s > SPOKEN_S
        open_end = await it.open_end()
        utterance = it.stream.utterance(**SAME)
        await utterance.push(TEXT)
        await utterance.end()
        first = await anext(utterance.audio())
        other = it.client.synthesize(TEXT, **SAME)
        assert isinstance(await anext(other), Started)

        await it.told()
        for attempt in (say(it.stream, SHORT), it.client.speak(SHORT)):
            assert (await refused(attempt)).reason == "DRAINING"
        rest_of_it = [piece async for piece in utterance.audio()]
        assert same(b"".join([first, *rest_of_it]), undisturbed.audio)
        whole = b"".join([event.data async for event in other if isinstance(event, Audio)])
        assert same(whole, undisturbed.audio)
        assert it.server.process.poll() is None

        await open_end.push(SHORT)
        await open_end.end()
        assert (await open_end.speech()).audio
        assert await it.left() == 0


async def test_a_second_signal_ends_it_at_once() -> None:
    async with leaving(PATIENT) as it:
        open_end = await it.open_end()
        await it.told()
        it.server.process.send_signal(signal.SIGTERM)
        assert (await refused(rest(open_end))).reason == "DRAINING"
        assert await it.left() == 0


@pytest.mark.parametrize("limit_s", [0.2, 2.0])
async def test_what_outlives_the_limit_fails_with_a_status(limit_s: float) -> None:
    async with leaving(f"server.drain_timeout_s={limit_s}") as it:
        open_end = await it.open_end()
        await it.told()
        assert (await refused(rest(open_end))).reason == "DRAINING"
        assert await it.left() == 0


async def test_a_server_without_callers_leaves_with_the_first_signal() -> None:
    async with leaving(PATIENT) as it:
        assert (await say(it.stream, SHORT)).speech.audio
        await it.told()
        assert await it.left() == 0
