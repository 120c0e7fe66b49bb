"""What of `server.tls` and `server.auth` goes together."""

from __future__ import annotations

import pytest

from talkwire_pipeline.deploy import load
from talkwire_pipeline.errors import DeployError


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["tls.certificate=a"], "--set server.tls.certificate=a: server.tls.certificate: 'a'.*tls.key is missing"),
        (["tls.key=a"], "server.tls.key: 'a' does nothing alone: server.tls.certificate is missing"),
        (["tls.client_ca=a"], "server.tls.client_ca: 'a' does nothing alone: server.tls.certificate is missing"),
        (["tls.certificate=a", "tls.key="], "server.tls.key: null"),
        (["tls.certificate=''", "tls.key=b"], "server.tls.certificate: ''"),
        (["tls.certificat=a"], "did you mean certificate"),
        (["auth.jwks_file=a", "auth.issuer=b"], "server.auth.jwks_file: 'a'.*server.auth.audience is missing"),
        (["auth.jwks_file=a", "auth.audience=b"], "server.auth.jwks_file: 'a'.*server.auth.issuer is missing"),
        (["auth.audience=b"], "server.auth.audience: 'b' does nothing alone: server.auth.jwks_file is missing"),
        (["auth.jwks_file=a", "auth.tokens_file=b"], "server.auth.jwks_file: tokens come from one place"),
        (["tls=on"], "server.tls: a mapping of keys belongs here"),
    ],
)
def test_what_does_not_go_together_is_refused(overrides: list[str], words: str) -> None:
    with pytest.raises(DeployError, match=words):
        load("demo", overrides=[f"server.{each}" for each in overrides], environment={})


def test_tokens_in_plain_text_are_warned_of() -> None:
    tokens, tls = ["server.auth.tokens_file=a"], ["server.tls.certificate=b", "server.tls.key=c"]
    (warning,) = load("demo", overrides=tokens, environment={}).warnings
    assert warning.startswith("--set server.auth.tokens_file=a: server.auth: tokens come in plain text")
    assert not load("demo", overrides=[*tokens, *tls], environment={}).warnings
    assert not load("demo", environment={}).warnings


def test_files_are_named_in_the_environment_too() -> None:
    environment = {"TALKWIRE_SERVER__TLS__CERTIFICATE": "a.pem", "TALKWIRE_SERVER__TLS__KEY": "a.key"}
    deploy = load("demo", environment=environment)
    assert (deploy.server.tls.certificate, deploy.server.tls.key, deploy.server.tls.client_ca) == (
        "a.pem",
        "a.key",
        None,
    )
