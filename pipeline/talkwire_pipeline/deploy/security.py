"""What of `server.tls` and `server.auth` does not go together. Pure: no file is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from talkwire_pipeline.deploy.check import Path, Problem
from talkwire_pipeline.deploy.schema import Server
from talkwire_pipeline.deploy.tree import Origin

_TLS: Path = ("server", "tls")
_AUTH: Path = ("server", "auth")


def problems(server: Server, where: Callable[[Path], Origin]) -> Iterator[Problem]:
    """Keys that need another one; `where` says where the value at a path was written."""
    for ours, other in (("certificate", "key"), ("key", "certificate"), ("client_ca", "certificate")):
        value = getattr(server.tls, ours)
        if value is not None and getattr(server.tls, other) is None:
            path = (*_TLS, ours)
            yield Problem(where(path), path, f"{value!r} does nothing alone: server.tls.{other} is missing")


def warnings(server: Server, where: Callable[[Path], Origin]) -> Iterator[str]:
    """What is allowed and may not be meant."""
    if server.auth.tokens_file is not None and server.tls.certificate is None:
        origin = where((*_AUTH, "tokens_file"))
        yield f"{origin}: server.auth: tokens come in plain text unless something in front ends TLS: set server.tls"
