"""An issuer of JWTs for tests: its keys, the file of the public ones, and what it signs."""

from __future__ import annotations

import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER, AUDIENCE = "https://issuer.example", "talkwire-test"
SETTINGS = (f"server.auth.issuer={ISSUER}", f"server.auth.audience={AUDIENCE}")
_ALGORITHMS: dict[str, Any] = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}


class Issuer:
    """One key of each algorithm, or of those named; a key's id is its algorithm's name."""

    def __init__(self, *algorithms: str, rsa_bits: int = 2048) -> None:
        make: dict[str, Any] = {
            "RS256": lambda: rsa.generate_private_key(65537, rsa_bits),
            "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate,
        }
        self.keys = {name: make[name]() for name in algorithms or make}

    def jwk(self, name: str, *, private: bool = False, **fields: Any) -> dict[str, Any]:
        """One key as JSON."""
        key = self.keys[name] if private else self.keys[name].public_key()
        return {**_ALGORITHMS[name].to_jwk(key, as_dict=True), "kid": name, "alg": name, **fields}

    def jwks(self, *extra: dict[str, Any]) -> str:
        """The file of the public keys."""
        return json.dumps({"keys": [*extra, *map(self.jwk, self.keys)]})

    def sign(self, algorithm: str = "ES256", *, kid: str | None = "", headers: Any = None, **claims: Any) -> str:
        """A token that is good for an hour and for everything; a claim that is None is left out."""
        payload = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "alice",
            "exp": int(time.time()) + 3600,
            "scope": "openid talkwire",
            **claims,
        }
        head = {**({} if kid is None else {"kid": kid or algorithm}), **(headers or {})}
        payload = {name: value for name, value in payload.items() if value is not None}
        return jwt.encode(payload, self.keys[algorithm], algorithm, head)
