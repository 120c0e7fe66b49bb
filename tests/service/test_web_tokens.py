"""JWTs over real sockets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

pytest.importorskip("jwt")
pytest.importorskip("cryptography")

from support.jwts import SETTINGS, Issuer
from talkwire.v1 import speech_pb2 as pb


async def test_an_issuers_tokens_open_what_their_scopes_say(
    serve: Callable[..., Awaitable[Any]], tmp_path: Path
) -> None:
    issuer, path = Issuer(), tmp_path / "jwks.json"
    path.write_bytes(issuer.jwks().encode())
    served = await serve(f"server.auth.jwks_file={path}", *SETTINGS)

    async def info(token: str) -> grpc.StatusCode:
        call = served.stub.GetServerInfo(pb.GetServerInfoRequest(), metadata=(("authorization", f"Bearer {token}"),))
        code: grpc.StatusCode = await call.code()
        return code

    assert await info(issuer.sign()) is grpc.StatusCode.OK
    assert await info(issuer.sign(scope="talkwire:GetServerInfo")) is grpc.StatusCode.OK
    assert await info(issuer.sign(scope="talkwire:Converse")) is grpc.StatusCode.PERMISSION_DENIED
    assert await info(issuer.sign(scope=None)) is grpc.StatusCode.PERMISSION_DENIED
    assert await info(issuer.sign(exp=1)) is grpc.StatusCode.UNAUTHENTICATED
    assert await info(Issuer().sign()) is grpc.StatusCode.UNAUTHENTICATED
    caller = served.converse(metadata=(("authorization", f"Bearer {issuer.sign(sub='agent 7')}"),))
    await caller.send("u", start=pb.Start())
    await caller.until("started")
    assert [session.key for session in served.app.admission.streams] == ["agent 7"]
