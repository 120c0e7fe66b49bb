"""A client that is closed has no connection any more, and needs no garbage collector for that."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, suppress

import pytest

from support.fake_speech import FakeSpeech, serve
from talkwire import NotFound, SpeechClient


@pytest.fixture(autouse=True)
def _no_garbage_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def sockets() -> int:
    """Of this process, which is client and server."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the listing's own, and what gRPC's threads close meanwhile
            count += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    return count


async def leave_a_live_utterance(client: SpeechClient) -> None:
    async with client.converse() as stream:
        utterance = stream.utterance(voice="endless")
        await anext(utterance)


async def keep_a_refusal(client: SpeechClient) -> None:
    async with client.converse() as stream:
        utterance = stream.utterance(voice="missing")
        with pytest.raises(NotFound):
            await anext(utterance)
        with pytest.raises(NotFound):
            await utterance.push("more")


async def leave_a_whole_text(client: SpeechClient) -> None:
    async with aclosing(client.synthesize("some words")) as events:
        await anext(events)


async def speak_whole(client: SpeechClient) -> None:
    await client.speak("some words")


@pytest.mark.timeout(30)
@pytest.mark.parametrize("use", [leave_a_live_utterance, keep_a_refusal, leave_a_whole_text, speak_whole])
async def test_the_connection_goes_with_the_client(use: Callable[[SpeechClient], Awaitable[None]]) -> None:
    async with serve(FakeSpeech()) as target:
        before = sockets()
        async with SpeechClient(target) as client:
            await use(client)
            assert sockets() > before
        while sockets() != before:  # noqa: ASYNC110 - gRPC does not say when; the test's own limit ends a wait in vain
            await asyncio.sleep(0)
