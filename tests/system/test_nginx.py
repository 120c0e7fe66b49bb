"""What docs/recipes/nginx.md recommends, run: callers behind nginx get what they get without it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import nginx
from support.callers import LONG_TEXT, heard, kill_a_client, refused, rest, start
from support.certificates import Authority
from support.observed import NOT_SERVING, SERVING, Observed, watching
from support.pcm import same
from talkwire import SpeechClient, Tls
from talkwire.listen import say
from tools.server import Server, serving

TEXT = "Somebody stands between us, and passes on every word."
ARGUMENTS = ("--profile", "demo", "--metrics-port", "0", "--log-level", "warning")
LEAVE_S = 60.0

pytestmark = pytest.mark.skipif(nginx.runnable() is None, reason=nginx.MISSING)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(*ARGUMENTS) as server:
        yield server


@pytest.fixture
def front(server: Server, tmp_path: Path) -> Iterator[str]:
    """Where callers find nginx; it has nothing to complain about."""
    whole, _ = nginx.examples()
    with nginx.in_front(whole, tmp_path, server.target) as target:
        yield target
    assert not nginx.complaints(tmp_path)


async def voice_of(client: SpeechClient) -> bytes:
    """The same words at every call."""
    return (await client.speak(TEXT, seed=5, geometry="exact")).audio


async def test_one_utterance_is_aborted_and_answered_and_the_next_is_spoken(server: Server, front: str) -> None:
    async with SpeechClient(server.target) as direct:
        voice = await voice_of(direct)
    async with SpeechClient(front) as client, client.converse() as stream:
        other = asyncio.create_task(say(stream, TEXT, seed=5, geometry="exact"))
        utterance = await heard(await start(stream))
        dropped = await utterance.abort()
        assert dropped is not None
        assert dropped.generated_samples > 0
        assert dropped.spoken_text + dropped.unspoken_text == LONG_TEXT
        assert same((await other).speech.audio, voice)
    await Observed(server).until_idle()


async def test_a_whole_text_is_the_same_through_it(server: Server, front: str) -> None:
    async with SpeechClient(server.target) as direct, SpeechClient(front) as client:
        assert (await client.health()) == SERVING
        assert same(await voice_of(client), await voice_of(direct))


async def test_audio_comes_as_it_is_made(front: str) -> None:
    async with SpeechClient(front) as client, client.converse() as stream:
        utterance = stream.utterance()
        await utterance.push(TEXT)
        await utterance.flush()
        await heard(utterance)  # and its caller has not even said all
        assert not utterance.ended
        await utterance.push(TEXT)
        await utterance.end()
        await rest(utterance)


async def test_more_than_a_megabyte_of_text_passes_on_one_stream(front: str) -> None:
    async with SpeechClient(front) as client, client.converse() as stream:
        for _ in range(300):
            utterance = stream.utterance()
            await utterance.push("A" + " " * 4000)
            await utterance.abort()
        assert (await say(stream, TEXT)).speech.audio


async def test_a_killed_client_frees_its_slots(server: Server, front: str) -> None:
    before = Observed(server).figures()['talkwire_utterances_total{end="disconnected"}']
    await kill_a_client(front, 2)
    await Observed(server).until_idle()
    assert Observed(server).figures()['talkwire_utterances_total{end="disconnected"}'] == before + 3


async def test_a_server_that_drains_is_seen_through_it(tmp_path: Path) -> None:
    whole, _ = nginx.examples()
    with serving(*ARGUMENTS) as server, nginx.in_front(whole, tmp_path, server.target) as front:
        async with SpeechClient(front) as client, client.converse() as stream, watching(front) as health:
            await health.becomes(SERVING)
            utterance = stream.utterance()
            await utterance.push(TEXT)
            await utterance.flush()
            await heard(utterance)
            server.process.send_signal(signal.SIGTERM)
            await health.becomes(NOT_SERVING)
            assert (await refused(say(stream, TEXT))).reason == "DRAINING"
            assert (await refused(client.speak(TEXT))).reason == "DRAINING"
            await utterance.push(TEXT)
            await utterance.end()
            speech = await utterance.speech()
            assert speech.duration_s > 2
            assert await asyncio.to_thread(server.process.wait, LEAVE_S) == 0
            assert "no server" in (await refused(client.speak(TEXT))).message
            assert "no server" in (await refused(client.health())).message


async def test_a_server_that_dies_is_unavailable_behind_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="left with status -9"):
        await kill_behind_nginx(tmp_path)


async def kill_behind_nginx(folder: Path) -> None:
    """Ends with the complaint of `serving`."""
    whole, _ = nginx.examples()
    with serving(*ARGUMENTS) as server, nginx.in_front(whole, folder, server.target) as front:
        async with SpeechClient(front) as client, client.converse() as stream:
            speaking = await heard(await start(stream))
            silent = stream.utterance()  # is spoken again, if there is somebody to do so
            await anext(silent)
            server.process.kill()
            assert "RST_STREAM" in (await refused(rest(speaking))).message
            assert "no server" in (await refused(rest(silent))).message


async def test_it_takes_tls_for_the_server(server: Server, tmp_path: Path) -> None:
    whole, secure = nginx.examples()
    authority = Authority(tmp_path)
    pair = authority.issue("nginx")
    secure = secure.replace("/etc/nginx/talkwire.crt", str(pair.certificate))
    secure = secure.replace("/etc/nginx/talkwire.key", str(pair.key))
    listens = "        listen 127.0.0.1:8080 http2;\n"
    assert listens in whole
    with nginx.in_front(whole.replace(listens, secure), tmp_path, server.target) as front:
        async with SpeechClient(front, tls=Tls(ca=authority.pair.certificate)) as client, client.converse() as stream:
            assert (await say(stream, TEXT)).speech.audio
            assert (await client.speak(TEXT)).audio
