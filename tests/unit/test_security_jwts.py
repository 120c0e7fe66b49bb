"""JWTs: which are taken, what they allow, and which files of keys are of use."""

from __future__ import annotations

import base64
import hmac
import json
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jwt")
pytest.importorskip("cryptography")

import jwt

from support.jwts import AUDIENCE, ISSUER, Issuer
from talkwire_pipeline.deploy.server import Auth
from talkwire_pipeline.errors import DeployError, UnauthenticatedError
from talkwire_server.security.caller import Grant
from talkwire_server.security.jwts import ALGORITHMS, LEEWAY_S, WebTokens, keys, methods


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def stranger() -> Issuer:
    return Issuer()


def web_tokens(issuer: Issuer, folder: Path, *extra: dict[str, Any]) -> WebTokens:
    path = folder / "jwks.json"
    path.write_text(issuer.jwks(*extra))
    return WebTokens(Auth(jwks_file=str(path), issuer=ISSUER, audience=AUDIENCE))


@pytest.fixture
def tokens(issuer: Issuer, tmp_path: Path) -> WebTokens:
    return web_tokens(issuer, tmp_path)


def segment(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_token_of_the_issuer_is_taken(issuer: Issuer, tokens: WebTokens, algorithm: str) -> None:
    assert tokens.verify(issuer.sign(algorithm)) == Grant("alice")
    assert tokens.verify(issuer.sign(algorithm, aud=["other", AUDIENCE], sub="auth0|42")) == Grant("auth0|42")


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": None}, "TOKEN_INVALID"),
        ({"exp": "soon"}, "TOKEN_INVALID"),
        ({"exp": int(time.time() - LEEWAY_S - 60)}, "TOKEN_EXPIRED"),
        ({"nbf": int(time.time()) + 600}, "TOKEN_INVALID"),
        ({"iss": "https://other.example"}, "TOKEN_INVALID"),
        ({"iss": None}, "TOKEN_INVALID"),
        ({"aud": "other"}, "TOKEN_INVALID"),
        ({"aud": None}, "TOKEN_INVALID"),
        ({"sub": None}, "TOKEN_INVALID"),
        ({"sub": ""}, "TOKEN_INVALID"),
        ({"sub": "a\nb"}, "TOKEN_INVALID"),
        ({"sub": "x" * 129}, "TOKEN_INVALID"),
        ({"kid": "other"}, "TOKEN_INVALID"),
        ({"kid": None}, "TOKEN_INVALID"),
        ({"kid": "RS256"}, "TOKEN_INVALID"),
    ],
    ids=str,
)
def test_other_claims_are_refused(issuer: Issuer, tokens: WebTokens, claims: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnauthenticatedError) as caught:
        tokens.verify(issuer.sign(**claims))
    assert caught.value.reason == reason


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_another_signer_is_refused(stranger: Issuer, tokens: WebTokens, algorithm: str) -> None:
    with pytest.raises(UnauthenticatedError, match="Signature verification failed"):
        tokens.verify(stranger.sign(algorithm))


def test_the_key_says_how_a_token_is_signed(issuer: Issuer, tokens: WebTokens) -> None:
    claims = issuer.sign().split(".")[1]
    with_secret = f"{segment({'alg': 'HS256', 'kid': 'RS256'})}.{claims}"
    public = json.dumps(issuer.jwk("RS256")).encode()
    mac = base64.urlsafe_b64encode(hmac.digest(public, with_secret.encode(), "sha256")).decode().rstrip("=")
    forged = [
        f"{segment({'alg': 'none', 'kid': 'RS256'})}.{claims}.",
        f"{with_secret}.{mac}",
        jwt.encode({"sub": "alice"}, issuer.keys["RS256"], "RS512", {"kid": "RS256"}),
        jwt.encode({"sub": "alice"}, issuer.keys["RS256"], "PS256", {"kid": "RS256"}),
    ]
    for token in forged:
        with pytest.raises(UnauthenticatedError) as caught:
            tokens.verify(token)
        assert caught.value.reason == "TOKEN_INVALID"


@pytest.mark.parametrize(
    "token",
    [
        *("", "x", "a.b", "a.b.c", "....", "é.é.é", f"{'[' * 6000}.x.x"),
        f"{segment([])}.x.x",
        f"{segment({'kid': 5})}.x.x",
        f"{segment({'alg': ['ES256'], 'kid': 'ES256'})}.e30.x",
        f"{base64.urlsafe_b64encode(b'[' * 6000).decode()}.x.x",
    ],
    ids=lambda token: token[:12],
)
def test_what_is_no_token_is_refused(tokens: WebTokens, token: str) -> None:
    with pytest.raises(UnauthenticatedError) as caught:
        tokens.verify(token)
    assert caught.value.reason == "TOKEN_INVALID"


def test_one_key_alone_needs_no_name(tmp_path: Path) -> None:
    issuer = Issuer("EdDSA")
    assert web_tokens(issuer, tmp_path).verify(issuer.sign("EdDSA", kid=None)) == Grant("alice")


def test_keys_are_followed(issuer: Issuer, stranger: Issuer, tmp_path: Path) -> None:
    tokens = web_tokens(issuer, tmp_path)
    (tmp_path / "jwks.json").write_text(stranger.jwks())
    assert tokens.verify(stranger.sign()) == Grant("alice")
    with pytest.raises(UnauthenticatedError):
        tokens.verify(issuer.sign())


@pytest.mark.parametrize(
    ("claims", "allowed"),
    [
        ({"scope": "talkwire"}, None),
        ({"scp": ["openid", "talkwire"]}, None),
        ({"scp": "talkwire"}, None),
        ({"scope": "openid talkwire:Converse talkwire:Abort"}, frozenset({"Converse", "Abort"})),
        ({"scope": "talkwire:Converse", "scp": ["talkwire:Abort"]}, frozenset({"Converse", "Abort"})),
        ({}, frozenset()),
        ({"scope": "openid"}, frozenset()),
        ({"scope": 5, "scp": [5, None]}, frozenset()),
        ({"scope": "TALKWIRE talkwirex"}, frozenset()),
    ],
)
def test_scopes_are_methods(claims: dict[str, Any], allowed: frozenset[str] | None) -> None:
    assert methods(claims) == allowed


def test_keys_of_other_kinds_are_passed_over(issuer: Issuer, tmp_path: Path) -> None:
    others = [
        issuer.jwk("RS256", kid="x", alg="RS512"),
        issuer.jwk("ES256", kid="y", use="enc"),
        {"kty": "EC", "crv": "secp256k1", "kid": "z"},
        {"kty": "new"},
    ]
    assert web_tokens(issuer, tmp_path, *others).verify(issuer.sign()) == Grant("alice")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "file: is no JWK set"),
        ("[]", "file: is no JWK set"),
        ("{}", "file: is no JWK set"),
        ('{"keys": 5}', "file: is no JWK set"),
        ('{"keys": [5]}', "file: is no JWK set"),
        ("[" * 100_000, "file: is no JWK set"),
        ('{"keys": []}', "file: has no key for RS256, ES256, EdDSA"),
        ('{"keys": [{"kty": "RSA", "alg": "RS512"}]}', "file: has no key for"),
        ('{"keys": [{"kty": "oct", "k": "AAAA"}]}', "file: has a secret key"),
    ],
    ids=lambda text: text[:20],
)
def test_files_of_no_use_are_refused(text: str, words: str) -> None:
    with pytest.raises(DeployError, match=words):
        keys(text.encode(), "file")


def test_secret_and_short_keys_are_refused(issuer: Issuer) -> None:
    secret = json.dumps({"keys": [issuer.jwk("ES256", private=True)]})
    with pytest.raises(DeployError, match="has a secret key: put the public ones there") as caught:
        keys(secret.encode(), "file")
    assert json.loads(secret)["keys"][0]["d"] not in caught.value.message
    with pytest.raises(DeployError, match=r"file: key 'RS256': .*1024 bits"):
        keys(Issuer("RS256", rsa_bits=1024).jwks().encode(), "file")
