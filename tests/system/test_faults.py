"""Whatever callers and processes do to a real server, nothing is left behind and the next utterance speaks."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import grpc.aio
import pytest

from support.callers import LONG_TEXT, TEXT, heard, kill_a_client, rest, start
from support.observed import NOT_SERVING, SERVING, Observed, until_equal, watching
from support.pcm import same
from talkwire import DeadlineExceeded, SpeechClient, Unavailable
from talkwire.listen import say
from talkwire.stream import Stream
from talkwire.v1 import speech_pb2 as pb
from talkwire.v1.speech_pb2_grpc import SpeechServiceStub
from tools.server import serving

ABORTS = 500
KILLS = 20
"""Of each stage."""
STREAMS = 20
AT_ONCE_ON_A_STREAM = 2
KILLED_CLIENTS = 20
CLIENTS_AT_ONCE = 5
SLOTS = 8
GROWTH_MIB = 64
"""What allocators may keep; a leak of audio, rows or cache would be more than that."""
ARGUMENTS = ("--profile", "demo", "--metrics-port", "0", "--log-level", "warning")


@pytest.fixture(scope="module")
def server() -> Iterator[Observed]:
    with serving(*ARGUMENTS) as server:
        yield Observed(server)


async def voice_of(target: str) -> bytes:
    """The same few words at every call."""
    async with SpeechClient(target) as client:
        return (await client.speak(TEXT, seed=5, geometry="exact")).audio


async def fill(target: str) -> None:
    """Every slot speaks at the same time; a slot that had been lost would refuse one of them."""
    async with SpeechClient(target) as client, client.converse() as stream:
        await asyncio.gather(*(say(stream, TEXT, seed=seed) for seed in range(SLOTS)))


# ---- callers


async def cancel_one(client: SpeechClient, dice: random.Random) -> str:
    """Starts an utterance on a call of its own and cancels that at some moment; how it ended."""
    async with client.converse() as stream:
        utterance = stream.utterance()
        await utterance.push(LONG_TEXT[: dice.randint(1, len(LONG_TEXT))])
        with suppress(TimeoutError):
            async with asyncio.timeout(dice.uniform(0.001, 1.5)):
                await rest(utterance)
    return "cancelled"


async def drop_one(stream: Stream, stranger: SpeechClient, dice: random.Random) -> str:
    """Starts an utterance and ends it before its time, in some way at some moment; how it ended."""
    way = dice.choice(("abort", "server_id", "deadline"))
    moment_s = dice.uniform(0.001, 1.5)
    utterance = stream.utterance(timeout_s=moment_s) if way == "deadline" else stream.utterance()
    await utterance.push(LONG_TEXT[: dice.randint(1, len(LONG_TEXT))])
    if dice.random() < 0.5:
        await utterance.end()
    with suppress(TimeoutError):
        async with asyncio.timeout(None if way == "deadline" else moment_s):
            try:
                await rest(utterance)
            except DeadlineExceeded:
                return "deadline"
            return "finished"
    if way == "server_id" and utterance.started is not None:
        found = await stranger.abort(utterance.started.server_id, timeout_s=60)
        await rest(utterance)
        return "aborted" if found else "finished"
    return "aborted" if await utterance.abort(timeout_s=60) else "finished"


async def drop_many(target: str, seed: int) -> Counter[str]:
    """`ABORTS` utterances over a few streams, several at the same time on each."""
    numbers = iter(range(ABORTS))
    ends: Counter[str] = Counter()

    async def caller(stream: Stream, stranger: SpeechClient) -> None:
        for number in numbers:
            dice = random.Random(f"{seed}/{number}")
            cancels = dice.random() < 0.2
            ends[await (cancel_one(stranger, dice) if cancels else drop_one(stream, stranger, dice))] += 1

    async def on_a_stream(client: SpeechClient, stranger: SpeechClient) -> None:
        async with client.converse() as stream:
            await asyncio.gather(*(caller(stream, stranger) for _ in range(AT_ONCE_ON_A_STREAM)))

    async with SpeechClient(target) as client, SpeechClient(target) as stranger:
        await asyncio.gather(*(on_a_stream(client, stranger) for _ in range(STREAMS)))
    return ends


async def test_aborted_utterances_and_killed_clients_leave_nothing(server: Observed) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"random seed {seed}")
    voice = await voice_of(server.target)
    await fill(server.target)
    await server.until_idle()
    held, resident_mib = server.held(), server.resident_mib()

    ends = await drop_many(server.target, seed)
    assert ends.total() == ABORTS
    assert ends["aborted"] > ABORTS / 3
    assert ends["deadline"] > ABORTS / 8
    assert ends["cancelled"] > ABORTS / 8
    await server.until_idle()

    places, dice = asyncio.Semaphore(CLIENTS_AT_ONCE), random.Random(seed)
    killed = (kill_a_client(server.target, dice.randint(1, 3), places) for _ in range(KILLED_CLIENTS))
    await asyncio.gather(*killed)
    await server.until_idle()
    assert server.figures()['talkwire_utterances_total{end="disconnected"}'] >= KILLED_CLIENTS

    await fill(server.target)
    assert same(await voice_of(server.target), voice)
    await server.until_idle()
    await until_equal(lambda: server.held().beyond(held), {})
    assert not server.held().shared_memory - held.shared_memory
    grown = {name: now - resident_mib[name] for name, now in server.resident_mib().items()}
    print({name: f"{mib:+.1f} MiB" for name, mib in grown.items()})
    assert max(grown.values()) < GROWTH_MIB


async def test_a_caller_who_leaves_frees_the_slots(server: Observed) -> None:
    async with SpeechClient(server.target) as client, client.converse() as stream:
        utterances = [await start(stream) for _ in range(SLOTS)]
        await asyncio.gather(*map(heard, utterances))
        await server.until_figures(busy_slots=SLOTS, live_utterances=SLOTS)
    await server.until_idle()
    await fill(server.target)


async def test_a_half_close_lets_what_lives_finish(server: Observed) -> None:
    ends: Counter[str] = Counter()
    async with grpc.aio.insecure_channel(server.target) as channel:
        call = SpeechServiceStub(channel).Converse()
        for number in range(SLOTS):
            await call.write(pb.ConverseRequest(utterance_id=f"u{number}", start=pb.Start()))
            await call.write(pb.ConverseRequest(utterance_id=f"u{number}", text=pb.TextIncrement(text=TEXT)))
        await call.done_writing()
        async for response in call:
            ends[str(response.WhichOneof("event"))] += 1
        assert await call.code() is grpc.StatusCode.OK
    assert (ends["started"], ends["finished"]) == (SLOTS, SLOTS)
    assert not ends["failed"] + ends["error"]
    assert ends["audio"] > SLOTS
    await server.until_idle()


async def test_a_deadline_frees_the_slot_and_the_stream_lives_on(server: Observed) -> None:
    async with SpeechClient(server.target) as client, client.converse() as stream:
        utterance = stream.utterance(timeout_s=0.5)
        await utterance.push(LONG_TEXT)
        with pytest.raises(DeadlineExceeded):
            await rest(utterance)
        assert (await say(stream, TEXT)).speech.audio
    await server.until_idle()


async def test_anybody_who_knows_the_server_id_can_abort(server: Observed) -> None:
    async with SpeechClient(server.target) as client, client.converse() as stream, SpeechClient(server.target) as other:
        utterance = await heard(await start(stream))
        assert utterance.started is not None
        dropped = await other.abort(utterance.started.server_id)
        assert dropped is not None
        assert dropped.generated_samples > 0
        assert dropped.spoken_text + dropped.unspoken_text == LONG_TEXT
        *_, last = [event async for event in utterance]
        assert last == dropped
        assert await other.abort(utterance.started.server_id) is None
        await server.until_figures(busy_slots=0, live_utterances=0)


# ---- processes


@pytest.mark.parametrize("stage", ["talker", "codec"])
async def test_a_killed_stage_fails_what_is_open_and_comes_back(server: Observed, stage: str) -> None:
    voice = await voice_of(server.target)
    await server.until_idle()
    held = server.held()
    async with watching(server.target) as health, SpeechClient(server.target) as client:
        await health.becomes(SERVING)
        async with client.converse() as stream, client.converse() as another:
            utterances = [await start(each) for _ in range(SLOTS - 1) for each in (stream, another)]
            await asyncio.gather(heard(utterances[0]), heard(utterances[1]))
            await server.until_figures(busy_slots=SLOTS, live_utterances=len(utterances))
            os.kill(server.pid_of(stage), signal.SIGKILL)
            ends = await asyncio.gather(*map(rest, utterances), return_exceptions=True)
            assert [type(end) for end in ends] == [Unavailable] * len(utterances)
            await health.becomes(NOT_SERVING)
            with pytest.raises(Unavailable, match=f"the {stage} is"):
                await say(stream, TEXT)
            await health.becomes(SERVING)
            again = await say(another, TEXT, seed=5, geometry="exact")
    assert same(again.speech.audio, voice)
    await fill(server.target)
    await server.until_idle()
    await until_equal(lambda: server.held().beyond(held), {})


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_stages_killed_again_and_again_under_load_come_back_each_time(server: Observed) -> None:
    await fill(server.target)
    await server.until_idle()
    held, clock = server.held(), asyncio.get_running_loop().time
    async with SpeechClient(server.target) as client:
        for stage in ("talker", "codec") * KILLS:
            async with watching(server.target) as health, client.converse() as stream:
                await health.becomes(SERVING)
                utterances = [await start(stream) for _ in range(SLOTS)]
                await heard(utterances[0])
                os.kill(server.pid_of(stage), signal.SIGKILL)
                killed = clock()
                ends = await asyncio.gather(*map(rest, utterances), return_exceptions=True)
                assert clock() - killed < 2.0
                assert [type(end) for end in ends] == [Unavailable] * SLOTS
                await health.becomes(NOT_SERVING)
                await health.becomes(SERVING)
    await fill(server.target)
    await server.until_idle()
    await until_equal(lambda: server.held().beyond(held), {})


async def test_a_killed_server_takes_its_stages_with_it() -> None:
    with pytest.raises(RuntimeError, match="left with status -9"):
        await kill_a_speaking_server()


async def kill_a_speaking_server() -> None:
    """Returns, by way of `serving`'s complaint, when its stages are gone."""
    with serving(*ARGUMENTS) as process:
        server = Observed(process)
        stages = [os.pidfd_open(server.pid_of(name)) for name in ("talker", "codec")]
        async with SpeechClient(server.target) as client, client.converse() as stream:
            utterance = await heard(await start(stream))
            process.process.kill()
            with pytest.raises(Unavailable):
                await rest(utterance)
        for stage in stages:
            await readable(stage)
            os.close(stage)


async def readable(descriptor: int) -> None:
    """Waits for it: a pidfd is readable when its process has ended."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, event.set)
    await event.wait()
    loop.remove_reader(descriptor)
