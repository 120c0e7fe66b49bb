"""Bearer tokens over real sockets: who is let in, to what, and what is said to those who are not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from support.certificates import Authority, tls
from talkwire.v1 import speech_pb2 as pb
from talkwire_pipeline.deploy import load
from talkwire_pipeline.errors import DeployError
from talkwire_pipeline.fakes import FakeStages
from talkwire_server.app import App
from talkwire_server.security.tokens import line_of

Serve = Callable[..., Awaitable[Any]]
TEXT = "Hello there, this is a test."
Metadata = tuple[tuple[str, str], ...]


def bearing(token: str) -> Metadata:
    return (("authorization", f"Bearer {token}"),)


def write(path: Path, *lines: str) -> None:
    path.write_text("\n".join(lines))


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    write(path, line_of("alice", "secret-a"), line_of("bob", "secret-b", ["Synthesize", "Abort"]))
    return path


@pytest.fixture
async def served(serve: Serve, tokens: Path) -> Any:
    return await serve(f"server.auth.tokens_file={tokens}")


async def answer(call: Any) -> tuple[grpc.StatusCode, str]:
    """How a call ended, and the reason in its details."""
    code = await call.code()
    for key, value in await call.trailing_metadata():
        if key == "grpc-status-details-bin":
            info = error_details_pb2.ErrorInfo()
            assert any(each.Unpack(info) for each in status_pb2.Status.FromString(value).details)
            return code, info.reason
    return code, ""


def calls(served: Any, metadata: Metadata) -> dict[str, Any]:
    """One call of each method of the service. `Converse` sends nothing: a refusal waits for no message."""
    stub = served.stub
    return {
        "Converse": served.converse(metadata=metadata).call,
        "Synthesize": stub.Synthesize(pb.SynthesizeRequest(text=TEXT), metadata=metadata),
        "Abort": stub.Abort(pb.AbortRequest(server_id="x"), metadata=metadata),
        "GetServerInfo": stub.GetServerInfo(pb.GetServerInfoRequest(), metadata=metadata),
    }


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ((), "TOKEN_MISSING"),
        ((("authorization", "Basic c2VjcmV0"),), "TOKEN_MISSING"),
        ((*bearing("secret-a"), *bearing("secret-b")), "TOKEN_MISSING"),
        (bearing("secret-c"), "TOKEN_UNKNOWN"),
        (bearing("secret-a secret-a"), "TOKEN_UNKNOWN"),
    ],
)
async def test_without_a_good_token_nothing_is_served(served: Any, metadata: Metadata, reason: str) -> None:
    for call in calls(served, metadata).values():
        assert await answer(call) == (grpc.StatusCode.UNAUTHENTICATED, reason)
    unknown = served.channel.unary_unary("/talkwire.v1.SpeechService/Sing")(b"", metadata=metadata)
    assert await answer(unknown) == (grpc.StatusCode.UNAUTHENTICATED, reason)
    refused = served.app.metrics.registry.get_sample_value("talkwire_refusals_total", {"reason": reason})
    assert refused == 5


async def test_a_token_speaks(served: Any) -> None:
    caller = served.converse(metadata=bearing("secret-a"))
    await caller.speak("u", TEXT)
    assert (await caller.rest())[-1].finished.statistics.sample_count > 0
    assert await answer(served.stub.GetServerInfo(pb.GetServerInfoRequest(), metadata=bearing("secret-a"))) == (
        grpc.StatusCode.OK,
        "",
    )


async def test_a_key_is_held_to_its_methods(served: Any) -> None:
    got = {
        name: await answer(call) for name, call in calls(served, bearing("secret-b")).items() if name != "Synthesize"
    }
    refused = (grpc.StatusCode.PERMISSION_DENIED, "METHOD_NOT_ALLOWED")
    assert got == {"Converse": refused, "Abort": (grpc.StatusCode.OK, ""), "GetServerInfo": refused}
    responses = [
        each async for each in served.stub.Synthesize(pb.SynthesizeRequest(text=TEXT), metadata=bearing("secret-b"))
    ]
    assert responses[-1].WhichOneof("event") == "finished"


async def test_the_file_is_followed_without_a_restart(served: Any, tokens: Path) -> None:
    async def info(token: str) -> grpc.StatusCode:
        return (await answer(served.stub.GetServerInfo(pb.GetServerInfoRequest(), metadata=bearing(token))))[0]

    open_before = served.converse(metadata=bearing("secret-a"))
    await open_before.send("u", start=pb.Start())
    await open_before.until("started")
    write(tokens, line_of("carol", "secret-c"))
    assert await info("secret-a") is grpc.StatusCode.UNAUTHENTICATED
    assert await info("secret-c") is grpc.StatusCode.OK
    write(tokens, "carol secret-d")
    assert await info("secret-c") is grpc.StatusCode.OK
    write(tokens, "# nobody")
    assert await info("secret-c") is grpc.StatusCode.UNAUTHENTICATED
    await open_before.send("u", abort=pb.Abort())
    await open_before.until("aborted")


async def check(served: Any, metadata: Metadata = ()) -> grpc.StatusCode:
    stub: Any = health_pb2_grpc.HealthStub(served.channel)
    code: grpc.StatusCode = await stub.Check(health_pb2.HealthCheckRequest(), metadata=metadata).code()
    return code


async def test_health_is_open_unless_told_otherwise(serve: Serve, tokens: Path) -> None:
    settings = [f"server.auth.tokens_file={tokens}"]
    assert await check(await serve(*settings)) is grpc.StatusCode.OK
    closed = await serve(*settings, "server.auth.open_health=false")
    assert await check(closed) is grpc.StatusCode.UNAUTHENTICATED
    assert await check(closed, bearing("secret-b")) is grpc.StatusCode.PERMISSION_DENIED
    assert await check(closed, bearing("secret-a")) is grpc.StatusCode.OK


async def test_the_contract_needs_a_token_too(served: Any) -> None:
    async def names(metadata: Metadata) -> set[str]:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(served.channel)
        call = stub.ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")]), metadata=metadata
        )
        response = await call.read()
        return {each.name for each in response.list_services_response.service}

    assert "talkwire.v1.SpeechService" in await names(bearing("secret-a"))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await names(())
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_the_session_knows_its_key_and_the_log_says_it_without_tokens(
    served: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    caller = served.converse(metadata=bearing("secret-a"))
    await caller.send("u", start=pb.Start())
    await caller.until("started")
    (session,) = served.app.admission.streams
    assert session.key == "alice"
    await answer(served.stub.GetServerInfo(pb.GetServerInfoRequest(), metadata=bearing("secret-wrong")))
    (line,) = (record for record in caplog.records if record.getMessage() == "utterance started")
    assert line.key == "alice"  # type: ignore[attr-defined]
    assert not any("secret" in str(vars(record)) for record in caplog.records if record.name.startswith("talkwire"))


async def test_without_tokens_the_key_is_the_name_in_the_certificate(serve: Serve, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    agent = authority.issue("client", common_name="agent 7").credentials(authority)
    served = await serve(*tls(authority.issue("server"), authority.pair.certificate), credentials=agent)
    caller = served.converse()
    await caller.send("u", start=pb.Start())
    await caller.until("started")
    (session,) = served.app.admission.streams
    assert session.key == "agent 7"


def test_a_file_that_cannot_be_read_is_said_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    with pytest.raises(DeployError, match=f"server.auth.tokens_file: {path} cannot be read"):
        App(load("demo", environment={}, overrides=[f"server.auth.tokens_file={path}"]), stages=FakeStages())
    path.write_text("alice")
    with pytest.raises(DeployError, match=f"server.auth.tokens_file: {path}:1: what follows the name"):
        App(load("demo", environment={}, overrides=[f"server.auth.tokens_file={path}"]), stages=FakeStages())


async def test_an_abort_finds_the_utterances_of_its_own_key_alone(served: Any) -> None:
    served.stages.hold()
    caller = served.converse(metadata=bearing("secret-a"))
    await caller.send("u", start=pb.Start())
    request = pb.AbortRequest(server_id=(await caller.until("started"))[-1].started.server_id)
    assert not (await served.stub.Abort(request, metadata=bearing("secret-b"))).found
    assert (await served.stub.Abort(request, metadata=bearing("secret-a"))).found
