"""TLS of the gRPC port: who can connect, and certificates that change while the server runs."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from support.certificates import Authority, Pair, tls
from talkwire.v1 import speech_pb2 as pb
from talkwire.v1 import speech_pb2_grpc
from talkwire_pipeline.deploy import load
from talkwire_pipeline.errors import DeployError
from talkwire_pipeline.fakes import FakeStages
from talkwire_server.app import App

Serve = Callable[..., Awaitable[Any]]
TEXT = "Hello there, this is a test."


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other"), "other")


@pytest.fixture
def ours(authority: Authority, tmp_path: Path) -> Pair:
    """The server's pair, in files of this test."""
    pair = Pair(tmp_path / "server.pem", tmp_path / "server.key")
    pair.replace(authority.issue("first"))
    return pair


async def info(channel: grpc.aio.Channel) -> pb.GetServerInfoResponse:
    stub: Any = speech_pb2_grpc.SpeechServiceStub(channel)
    response: pb.GetServerInfoResponse = await stub.GetServerInfo(pb.GetServerInfoRequest())
    return response


async def reaches(served: Any, credentials: grpc.ChannelCredentials | None) -> bool:
    """Whether a new connection with these credentials is served."""
    async with served.again(credentials) as channel:
        call: Any = speech_pb2_grpc.SpeechServiceStub(channel)
        code = await call.GetServerInfo(pb.GetServerInfoRequest()).code()
        assert code in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE)
        return bool(code is grpc.StatusCode.OK)


async def shown(served: Any) -> str:
    """The certificate that a new connection gets."""
    return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", served.app.port))


async def test_speech_over_tls(serve: Serve, authority: Authority, ours: Pair) -> None:
    served = await serve(*tls(ours), credentials=authority.credentials())
    caller = served.converse()
    await caller.speak("u", TEXT)
    assert (await caller.rest())[-1].finished.statistics.sample_count > 0


async def test_plaintext_and_strangers_do_not_get_in(
    serve: Serve, authority: Authority, other: Authority, ours: Pair
) -> None:
    served = await serve(*tls(ours), credentials=authority.credentials())
    assert await reaches(served, authority.credentials())
    assert not await reaches(served, None)
    assert not await reaches(served, other.credentials())


async def test_with_a_client_ca_callers_show_a_certificate(
    serve: Serve, authority: Authority, other: Authority, ours: Pair
) -> None:
    known, unknown = authority.issue("known"), other.issue("unknown")
    served = await serve(*tls(ours, authority.pair.certificate), credentials=known.credentials(authority))
    assert (await info(served.channel)).server_version
    assert not await reaches(served, authority.credentials())
    assert not await reaches(served, unknown.credentials(authority))


async def test_a_new_certificate_is_taken_without_a_restart(serve: Serve, authority: Authority, ours: Pair) -> None:
    served = await serve(*tls(ours), credentials=authority.credentials())
    caller = served.converse()
    await caller.send("u", start=pb.Start())
    await caller.until("started")
    assert await shown(served) == ours.certificate.read_text()
    ours.replace(authority.issue("second"))
    assert await shown(served) == ours.certificate.read_text()
    assert await reaches(served, authority.credentials())
    await caller.send("u", abort=pb.Abort())  # on the connection from before
    await caller.until("aborted")


async def test_callers_are_held_against_the_new_client_ca(
    serve: Serve, authority: Authority, other: Authority, ours: Pair, tmp_path: Path
) -> None:
    client_ca = tmp_path / "clients.pem"
    client_ca.write_bytes(authority.pair.certificate.read_bytes())
    first, second = authority.issue("a").credentials(authority), other.issue("b").credentials(authority)
    served = await serve(*tls(ours, client_ca), credentials=first)
    assert await reaches(served, first)
    client_ca.write_bytes(other.pair.certificate.read_bytes())
    assert not await reaches(served, first)
    assert await reaches(served, second)


async def test_broken_files_leave_the_old_certificate_and_warn_once(
    serve: Serve, authority: Authority, ours: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    served = await serve(*tls(ours), credentials=authority.credentials())
    before = ours.certificate.read_text()
    ours.certificate.write_text("no certificate")
    for _ in range(2):
        assert await shown(served) == before
    ours.key.unlink()
    assert await shown(served) == before
    warnings = [each.getMessage() for each in caplog.records if each.name.endswith("security.files")]
    assert len(warnings) == 2
    assert f"server.tls.certificate: {ours.certificate} has no CERTIFICATE" in warnings[0]
    assert f"server.tls: {ours.key} cannot be read" in warnings[1]
    ours.replace(authority.issue("third"))
    assert await shown(served) == ours.certificate.read_text() != before
    assert served.app.metrics.registry.get_sample_value("talkwire_rereads_total", {"what": "tls", "ok": "true"}) == 1
    assert served.app.metrics.registry.get_sample_value("talkwire_rereads_total", {"what": "tls", "ok": "false"}) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda pair, wrong: pair.certificate.write_text(""), "certificate: .*server.pem has no CERTIFICATE"),
        (lambda pair, wrong: pair.key.write_text("x"), "key: .*server.key has no PRIVATE KEY"),
        (lambda pair, wrong: pair.key.unlink(), "server.key cannot be read: No such file"),
        (lambda pair, wrong: pair.key.write_bytes(wrong.key.read_bytes()), "key values mismatch"),
        (lambda pair, wrong: pair.key.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----"), "passphrase.*remove it"),
        (lambda pair, wrong: pair.certificate.write_text("-----BEGIN CERTIFICATE-----\nAA"), "no certificate and its"),
        (lambda pair, wrong: (pair.certificate.parent / "ca.pem").write_text(""), "client_ca: .*ca.pem has no CERT"),
    ],
)
async def test_a_server_with_broken_files_does_not_start(
    authority: Authority, ours: Pair, change: Callable[[Pair, Pair], object], words: str
) -> None:
    client_ca = ours.certificate.parent / "ca.pem"
    client_ca.write_bytes(authority.pair.certificate.read_bytes())
    change(ours, authority.issue("wrong"))
    with pytest.raises(DeployError, match=words):
        App(load("demo", environment={}, overrides=tls(ours, client_ca)), stages=FakeStages())
