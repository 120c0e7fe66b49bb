"""Bearer tokens that somebody else issues and signs (JWT), held against that issuer's public keys in a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from talkwire_pipeline.deploy.server import Auth
from talkwire_pipeline.errors import DeployError, UnauthenticatedError
from talkwire_server.security.caller import Grant, is_name
from talkwire_server.security.files import Reread

if TYPE_CHECKING:
    from jwt import PyJWK

ALGORITHMS = ("RS256", "ES256", "EdDSA")
"""How a token may be signed: never with a secret that this server would have to keep."""
LEEWAY_S = 10.0
"""How far the issuer's clock may be off."""
SCOPE = "talkwire"
"""The scope that allows everything; `talkwire:METHOD` allows one method."""
_REQUIRED = ("exp", "iss", "aud", "sub")
_NAME = "server.auth.jwks_file"


class WebTokens:
    """The tokens of one issuer for one audience. Raises `DeployError` where the file or PyJWT is missing.

    Args:
        auth: has `jwks_file`, `issuer` and `audience`.
        told: hears whether the file, once it changed, could be read.
    """

    def __init__(self, auth: Auth, told: Callable[[bool], None] = lambda ok: None) -> None:
        self._jwt = _library()
        self._checks: dict[str, Any] = {
            "issuer": auth.issuer,
            "audience": auth.audience,
            "leeway": LEEWAY_S,
            "options": {"require": list(_REQUIRED)},
        }
        path = auth.jwks_file or ""
        self._keys = Reread(_NAME, [path], lambda files: keys(files[0], f"{_NAME}: {path}"), told)

    def verify(self, token: str) -> Grant:
        """What the token stands for: `sub` is the name, its scopes are the methods. Raises `UnauthenticatedError`."""
        try:
            key = self._key(self._jwt.get_unverified_header(token))
            claims = self._jwt.decode(token, key, algorithms=[key.algorithm_name], **self._checks)
        except self._jwt.ExpiredSignatureError as error:
            raise UnauthenticatedError("the token has expired: get a new one", reason="TOKEN_EXPIRED") from error
        except (self._jwt.PyJWTError, ValueError, RecursionError) as error:
            raise _invalid(f"{error}") from error
        if not isinstance(name := claims["sub"], str) or not is_name(name):
            raise _invalid("its sub is empty, too long or not printable")
        return Grant(name, methods(claims))

    def _key(self, header: Mapping[str, Any]) -> PyJWK:
        """The key that a token names; it need not name one where there is one alone."""
        found = self._keys.get()
        kid = header.get("kid")
        for key in found:
            if key.key_id == kid or (kid is None and len(found) == 1):
                return key
        raise _invalid(f"no key {kid!r} is known")


def keys(data: bytes, where: str) -> tuple[PyJWK, ...]:
    """The keys of a JWK set with which a token may be signed; others of public kinds are passed over.

    Raises `DeployError` where there is none, where one is too short, and where one is secret.
    """
    try:
        raw = json.loads(data)["keys"]
        found = tuple(key for entry in raw if (key := _usable(entry, where)))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DeployError(f"{where}: is no JWK set, which is JSON with a list `keys`: {error}") from error
    if not found:
        raise DeployError(f"{where}: has no key for {', '.join(ALGORITHMS)}")
    return found


def _usable(entry: dict[str, Any], where: str) -> PyJWK | None:
    if "d" in entry or "k" in entry:
        raise DeployError(f"{where}: has a secret key: put the public ones there, which their issuer shows to everyone")
    library = _library()
    try:
        key: PyJWK = library.PyJWK(entry)
    except library.PyJWTError:
        return None
    if key.algorithm_name not in ALGORITHMS or key.public_key_use not in (None, "sig"):
        return None
    if fault := key.Algorithm.check_key_length(key.key):
        raise DeployError(f"{where}: key {key.key_id!r}: {fault}")
    return key


def methods(claims: Mapping[str, Any]) -> frozenset[str] | None:
    """What the scopes of a token allow: None is everything, an empty set nothing."""
    scopes = set(_scopes(claims))
    if SCOPE in scopes:
        return None
    return frozenset(scope.removeprefix(f"{SCOPE}:") for scope in scopes if scope.startswith(f"{SCOPE}:"))


def _scopes(claims: Mapping[str, Any]) -> Iterator[str]:
    """Issuers write them in `scope` or `scp`, as words of a text or as a list."""
    for value in (claims.get("scope"), claims.get("scp")):
        if isinstance(value, str):
            yield from value.split()
        elif isinstance(value, list):
            yield from (each for each in value if isinstance(each, str))


def _invalid(why: str) -> UnauthenticatedError:
    return UnauthenticatedError(f"the token is of no use here: {why}", reason="TOKEN_INVALID")


def _library() -> Any:
    try:
        import cryptography  # noqa: F401 - PyJWT knows no public keys without it
        import jwt
    except ModuleNotFoundError as error:
        raise DeployError(f"{_NAME}: {error.name} is not installed: pip install 'talkwire[server,jwt]'") from error
    return jwt
