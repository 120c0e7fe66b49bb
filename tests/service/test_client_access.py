"""Our client against our server: TLS, certificates, tokens, and what is raised where they are refused."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc.experimental
import pytest

from support.certificates import Authority, Pair, tls
from talkwire import Health, PermissionDenied, ResourceExhausted, SpeechClient, Tls, Unauthenticated, Unavailable, speak
from talkwire_server.security.tokens import line_of

Serve = Callable[..., Awaitable[Any]]
TEXT = "Hello there, this is a test."


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Pair:
    return authority.issue("server")


@pytest.fixture
def tokens(tmp_path: Path) -> str:
    path = tmp_path / "tokens"
    path.write_text(f"{line_of('alice', 'good')}\n{line_of('kiosk', 'narrow', ['Synthesize'])}\n")
    return f"server.auth.tokens_file={path}"


def target(served: Any) -> str:
    return f"127.0.0.1:{served.app.port}"


async def test_a_token_over_tls(serve: Serve, authority: Authority, server: Pair, tokens: str) -> None:
    served = await serve(*tls(server), tokens, credentials=authority.credentials())
    ours = Tls(ca=authority.pair.certificate)
    async with SpeechClient(target(served), tls=ours, token="good") as client:
        assert await client.health() is Health.SERVING
        assert (await client.info()).server_version
        assert (await client.speak(TEXT)).audio
        async with client.converse() as stream, stream.utterance() as utterance:
            await utterance.push(TEXT)
            await utterance.end()
            assert [chunk async for chunk in utterance.audio()]
    assert (await asyncio.to_thread(speak, TEXT, target=target(served), tls=ours, token="good")).audio


async def test_who_is_refused_is_told_why(serve: Serve, authority: Authority, server: Pair, tokens: str) -> None:
    served = await serve(*tls(server), tokens, credentials=authority.credentials())
    ours = Tls(ca=authority.pair.certificate)
    async with SpeechClient(target(served), tls=ours) as client:
        with pytest.raises(Unauthenticated, match="has no token") as missing:
            await client.speak(TEXT)
        assert missing.value.reason == "TOKEN_MISSING"
    async with SpeechClient(target(served), tls=ours, token="bad") as client:
        with pytest.raises(Unauthenticated) as wrong:
            await client.info()
        assert wrong.value.reason == "TOKEN_UNKNOWN"
    async with SpeechClient(target(served), tls=ours, token="narrow") as client:
        assert (await client.speak(TEXT)).audio
        with pytest.raises(PermissionDenied, match="GetServerInfo: the token may call Synthesize") as narrow:
            await client.info()
        assert narrow.value.reason == "METHOD_NOT_ALLOWED"


@pytest.mark.parametrize(("token", "error"), [("bad", Unauthenticated), ("narrow", PermissionDenied)])
async def test_a_stream_is_told_so_too_whatever_is_on_its_way(
    serve: Serve, tokens: str, token: str, error: type[Exception]
) -> None:
    served = await serve(tokens)
    for _ in range(30):
        async with SpeechClient(target(served), token=token) as client, client.converse() as stream:
            utterance = stream.utterance()
            with suppress(error):
                for word in TEXT.split():
                    await utterance.push(word)
            with pytest.raises(error):
                await utterance.speech()


async def test_a_token_to_loopback_in_plain_text_takes_no_proxy(
    serve: Serve, tokens: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = await serve(tokens, "server.max_streams_per_key=1")
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.setblocking(False)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "")
        client = SpeechClient(target(served), token="good")
        async with client, client.converse() as stream, stream.utterance():
            await served.until(lambda: bool(served.app.admission.streams))
            with pytest.raises(ResourceExhausted) as caught:
                await client.speak(TEXT)
            assert (caught.value.reason, caught.value.retry_after_s) == ("KEY_STREAMS", 1.0)
        await served.until(lambda: not served.app.admission.streams)
        assert (await asyncio.to_thread(speak, TEXT, target=target(served), token="good")).audio
        with pytest.raises(BlockingIOError):
            proxy.accept()


async def test_a_certificate_of_the_caller(serve: Serve, authority: Authority, server: Pair) -> None:
    agent = authority.issue("agent")
    settings = tls(server, authority.pair.certificate)
    served = await serve(*settings, credentials=agent.credentials(authority))
    ca = authority.pair.certificate
    async with SpeechClient(target(served), tls=Tls(ca, agent.certificate, agent.key)) as client:
        assert (await client.info()).server_version
    async with SpeechClient(target(served), tls=Tls(ca)) as client:
        with pytest.raises(Unavailable):
            await client.info()


async def test_credentials_that_are_not_secure_get_no_token(serve: Serve, tokens: str) -> None:
    served = await serve(tokens)
    plain = grpc.experimental.insecure_channel_credentials()
    async with SpeechClient(target(served), credentials=plain, token="good") as client:
        with pytest.raises(Unauthenticated, match="security level"):
            await client.info()


async def test_the_command_line(serve: Serve, authority: Authority, server: Pair, tokens: str, tmp_path: Path) -> None:
    agent = authority.issue("agent")
    served = await serve(*tls(server, authority.pair.certificate), tokens, credentials=agent.credentials(authority))
    files = ("--tls-ca", authority.pair.certificate, "--tls-cert", agent.certificate, "--tls-key", agent.key)
    token_file = tmp_path / "token"
    token_file.write_bytes(b"good\n")

    async def run(*arguments: object, **environment: str) -> tuple[int | None, str]:
        command = (sys.executable, "-m", "talkwire.cli", *map(str, arguments), "--target", target(served))
        process = await asyncio.create_subprocess_exec(
            *command, stderr=asyncio.subprocess.PIPE, env={**os.environ, **environment}
        )
        _, err = await process.communicate()
        return process.returncode, err.decode()

    wav = tmp_path / "a.wav"
    assert await run("say", TEXT, "-o", wav, *files, TALKWIRE_TOKEN="good") == (0, "")
    assert wav.stat().st_size > 44
    assert await run("info", *files, "--token-file", token_file) == (0, "")
    status, err = await run("info", *files)
    assert status == 1
    assert "the call has no token" in err
    status, err = await run("info", "--tls")
    assert status == 3
    assert "--tls-ca names the file" in err
    status, err = await run("info")
    assert status == 3
    assert "if it speaks TLS" in err


async def test_the_command_line_against_plain_text(serve: Serve) -> None:
    served = await serve()
    command = (sys.executable, "-m", "talkwire.cli", "info", "--tls", "--target", target(served))
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, err = await process.communicate()
    assert process.returncode == 3
    assert b"leave --tls and the like out" in err
