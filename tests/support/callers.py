"""Callers of a real server, and what they do with an utterance."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable
from contextlib import nullcontext

import pytest

from talkwire import Unavailable
from talkwire.stream import Stream
from talkwire.utterance import Utterance
from talkwire.v1 import speech_pb2 as pb

TEXT = "A short one first. "
LONG_TEXT = "This is said again and again, until somebody or something puts an end to it. " * 12
_CLIENT = """
import asyncio, sys
from talkwire import SpeechClient

async def main(target, text):
    async with SpeechClient(target) as client, client.converse() as stream:
        for _ in range(3):
            utterance = stream.utterance()
            await utterance.push(text)
            await utterance.end()
        async for event in utterance:
            print(type(event).__name__, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


async def start(stream: Stream) -> Utterance:
    """An utterance that will not end for long."""
    utterance = stream.utterance()
    await utterance.push(LONG_TEXT)
    await utterance.end()
    return utterance


async def heard(utterance: Utterance) -> Utterance:
    """Reads up to the first audio."""
    while not isinstance(await anext(utterance), pb.Audio):
        pass
    return utterance


async def rest(utterance: Utterance) -> None:
    """Reads to the end."""
    async for _ in utterance:
        pass


async def kill_a_client(target: str, pieces: int, places: asyncio.Semaphore | None = None) -> None:
    """A client process with three utterances, killed when the last of them has given so much audio."""
    async with places or nullcontext():
        command = (sys.executable, "-c", _CLIENT, target, LONG_TEXT)
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        while pieces:
            line = await process.stdout.readline()
            assert line, "the client has ended by itself"
            pieces -= line == b"Audio\n"
        process.kill()
        await process.communicate()


async def refused(attempt: Awaitable[object]) -> Unavailable:
    """How a server that leaves refuses it."""
    with pytest.raises(Unavailable) as caught:
        await attempt
    return caught.value
