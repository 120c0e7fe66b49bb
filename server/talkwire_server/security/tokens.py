"""Bearer tokens and the file that knows them, which holds nothing that could be sent. Pure but for the file."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from talkwire.v1 import speech_pb2 as pb
from talkwire_pipeline.errors import DeployError, InvalidArgumentError, UnauthenticatedError
from talkwire_server.security.caller import Grant
from talkwire_server.security.files import Reread

METHODS = frozenset(pb.DESCRIPTOR.services_by_name["SpeechService"].methods_by_name) | {
    "Check",
    "List",
    "Watch",
    "ServerReflectionInfo",
}
"""What a key can be held to: the methods of the speech, health and reflection services."""
TOKEN_BYTES = 32
"""Random bytes in a token that we make."""
HEADER = "authorization"
"""The metadata that carries a token, as `Bearer TOKEN`."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_HINT = "`talkwire-server token NAME` prints a token and its line"


class Verifier(Protocol):
    """Knows tokens."""

    def verify(self, token: str) -> Grant:
        """What the token stands for. Raises `UnauthenticatedError` for one that is not known, or not any more."""


class Entry(NamedTuple):
    """One line of the file: the hash of a token in hexadecimal, and what it stands for."""

    digest: str
    grant: Grant


class TokenFile:
    """The tokens of `server.auth.tokens_file`; its changes are in force at once. Raises `DeployError` at the start."""

    def __init__(self, path: str, told: Callable[[bool], None] = lambda ok: None) -> None:
        name = "server.auth.tokens_file"
        self._entries = Reread(name, [path], lambda files: parse(files[0], f"{name}: {path}"), told)

    def verify(self, token: str) -> Grant:
        """What the token stands for; it takes as long for a wrong one. Raises `UnauthenticatedError`."""
        digest, found = digest_of(token), None
        for entry in self._entries.get():
            if hmac.compare_digest(entry.digest, digest):
                found = entry.grant
        if found is None:
            raise UnauthenticatedError("the token is not known here: ask who runs this server", reason="TOKEN_UNKNOWN")
        return found


def digest_of(token: str) -> str:
    """What the file has of a token: its SHA-256, in hexadecimal."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def line_of(name: str, token: str, methods: Iterable[str] = ()) -> str:
    """The token's line of the file, without its end. Raises `InvalidArgumentError` for what no line can have."""
    digest, listed = digest_of(token), ",".join(methods)
    try:
        _entry(name, digest, listed, "token")
    except DeployError as error:
        raise InvalidArgumentError("", error.message) from error
    return f"{name} {digest} {listed}".rstrip()


def parse(data: bytes, where: str) -> tuple[Entry, ...]:
    """The lines `name sha256 [method,method...]` of a file; `#` begins a comment.

    A name may have several lines: a token that is to be given up, and the one that takes its place. Raises
    `DeployError` for a line that cannot be read; its first two words are not quoted, since one may be a token.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DeployError(f"{where}: not UTF-8 at byte {error.start}") from error
    entries = tuple(_entries(text, where))
    seen: dict[str, str] = {}
    for digest, grant in entries:
        if digest in seen:
            raise DeployError(f"{where}: {seen[digest]} and {grant.name} have the same token: give each its own")
        seen[digest] = grant.name
    return entries


def _entries(text: str, where: str) -> Iterator[Entry]:
    for number, line in enumerate(text.splitlines(), 1):
        if content := line.partition("#")[0].strip():
            name, digest, methods = (*content.split(None, 2), "", "")[:3]
            yield _entry(name, digest, methods, f"{where}:{number}")


def _entry(name: str, digest: str, methods: str, where: str) -> Entry:
    if not _NAME.fullmatch(name):
        raise DeployError(f"{where}: the name is none: up to 64 letters, digits and . _ @ -, no sign first; {_HINT}")
    if not _DIGEST.fullmatch(digest.lower()):
        raise DeployError(f"{where}: what follows the name is no SHA-256 of 64 hexadecimal digits; {_HINT}")
    return Entry(digest.lower(), Grant(name, _methods(methods, f"{where}: {name}")))


def _methods(text: str, where: str) -> frozenset[str] | None:
    if not text:
        return None
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in METHODS:
            raise DeployError(f"{where}: {name!r} is no method; there are {', '.join(sorted(METHODS))}")
    return frozenset(names)


def bearer(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """The token that a call came with. Raises `UnauthenticatedError` where there is none."""
    values = [value for key, value in metadata if key == HEADER]
    scheme, _, token = values[0].partition(" ") if len(values) == 1 and isinstance(values[0], str) else ("", "", "")
    if scheme.lower() != "bearer" or not token.strip():
        text = f"the call has no token: send it as metadata '{HEADER}: Bearer TOKEN', or with the client's token="
        raise UnauthenticatedError(text, reason="TOKEN_MISSING")
    return token.strip()
