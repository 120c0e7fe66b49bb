"""What of `server.tls` and `server.auth` does not go together. Pure: no file is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from talkwire_pipeline.deploy.check import Path, Problem
from talkwire_pipeline.deploy.server import Server
from talkwire_pipeline.deploy.tree import Origin

_NEEDS = {
    "tls": (("certificate", "key"), ("key", "certificate"), ("client_ca", "certificate")),
    "auth": (
        ("jwks_file", "issuer"),
        ("jwks_file", "audience"),
        ("issuer", "jwks_file"),
        ("audience", "jwks_file"),
    ),
}
"""Keys of a section, and those that they do nothing without."""


def problems(server: Server, where: Callable[[Path], Origin]) -> Iterator[Problem]:
    """Keys that need another one, or bear none; `where` says where the value at a path was written."""
    for name, pairs in _NEEDS.items():
        section = getattr(server, name)
        for ours, other in pairs:
            value = getattr(section, ours)
            if value is not None and getattr(section, other) is None:
                path = ("server", name, ours)
                yield Problem(where(path), path, f"{value!r} does nothing alone: server.{name}.{other} is missing")
    if server.auth.tokens_file is not None and server.auth.jwks_file is not None:
        path = ("server", "auth", "jwks_file")
        yield Problem(where(path), path, "tokens come from one place: leave out this or server.auth.tokens_file")


def warnings(server: Server, where: Callable[[Path], Origin]) -> Iterator[str]:
    """What is allowed and may not be meant."""
    used = next((key for key in ("tokens_file", "jwks_file") if getattr(server.auth, key) is not None), None)
    if used and server.tls.certificate is None:
        origin = where(("server", "auth", used))
        yield f"{origin}: server.auth: tokens come in plain text unless something in front ends TLS: set server.tls"
