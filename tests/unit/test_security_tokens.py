"""The file of tokens, and what calls bring."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talkwire_pipeline.errors import DeployError, InvalidArgumentError, UnauthenticatedError
from talkwire_server.cli import main
from talkwire_server.security.caller import Grant, certificate_name, is_name
from talkwire_server.security.tokens import METHODS, TokenFile, bearer, digest_of, line_of, new_token, parse

A, B = digest_of("a"), digest_of("b")


def test_a_digest_is_the_sha_256_of_the_token() -> None:
    assert digest_of("abc") == hashlib.sha256(b"abc").hexdigest()


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("", []),
        ("# nobody\n\n   \n", []),
        (f"alice {A}", [(A, Grant("alice"))]),
        (f"\ufeffalice\t{A.upper()}  # laptop\r\nbob@x.org {B}\n", [(A, Grant("alice")), (B, Grant("bob@x.org"))]),
        (f"alice {A} Converse", [(A, Grant("alice", frozenset({"Converse"})))]),
        (f"alice {A} Converse,Abort", [(A, Grant("alice", frozenset({"Converse", "Abort"})))]),
        (f"alice {A} Converse, Abort # both", [(A, Grant("alice", frozenset({"Converse", "Abort"})))]),
        (f"alice {A}\nalice {B}", [(A, Grant("alice")), (B, Grant("alice"))]),
    ],
)
def test_lines_are_read(text: str, entries: list[tuple[str, Grant]]) -> None:
    assert list(parse(text.encode(), "file")) == entries


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# first\nalice", "file:2: what follows the name is no SHA-256"),
        (f"alice {A[:-1]}", "file:1: what follows the name is no SHA-256.*talkwire-server token"),
        (f"{A} alice", "what follows"),
        (f"al/ice {A}", "file:1: the name is none: up to 64"),
        (f"{'x' * 65} {A}", "the name is none"),
        (f"alice {A} Sing", "file:1: alice: 'Sing' is no method; there are Abort, "),
        (f"alice {A} Converse Abort", "'Converse Abort' is no method"),
        (f"alice {A} Converse,", "'' is no method"),
        (f"alice {A}\nbob {A}", "file: alice and bob have the same token: give each its own"),
    ],
)
def test_other_lines_are_refused(text: str, words: str) -> None:
    with pytest.raises(DeployError, match=words):
        parse(text.encode(), "file")


def test_another_encoding_is_refused() -> None:
    with pytest.raises(DeployError, match="file: not UTF-8 at byte 1"):
        parse("aé".encode("latin-1"), "file")


def test_a_token_in_place_of_its_hash_is_not_quoted() -> None:
    token = new_token()
    for line in (f"alice {token}", f"{token} alice", f"{token}/"):
        with pytest.raises(DeployError) as caught:
            parse(line.encode(), "file")
        assert token not in caught.value.message


@given(st.text(), st.text())
def test_any_line_is_read_or_refused(name: str, rest: str) -> None:
    try:
        entries = parse(f"{name} {A} {rest}".encode("utf-8", "replace"), "file")
    except DeployError:
        return
    assert all(entry.digest == A and entry.grant.name for entry in entries)


def test_a_line_that_is_made_is_read_back() -> None:
    token = new_token()
    (entry,) = parse(line_of("alice", token, ["Converse", "Abort"]).encode(), "file")
    assert entry == (digest_of(token), Grant("alice", frozenset({"Converse", "Abort"})))
    assert len({new_token() for _ in range(100)}) == 100
    assert len(token) >= 43


@pytest.mark.parametrize("name", ["", "a b", "#a", "-a", "a\nb"])
def test_a_name_that_no_line_can_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="the name is none"):
        line_of(name, "token")


def test_methods_are_those_that_are_served() -> None:
    assert {"Converse", "Synthesize", "Abort", "GetServerInfo", "Check", "ServerReflectionInfo"} <= METHODS


def test_a_grant_holds_to_its_methods() -> None:
    assert Grant("a").allows("Converse")
    assert Grant("a", frozenset({"Abort"})).allows("Abort")
    assert not Grant("a", frozenset({"Abort"})).allows("Converse")
    assert not Grant("a", frozenset()).allows("Converse")


def test_the_file_knows_its_tokens_and_follows_changes(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"alice {A} Abort\nbob {B}\n")
    tokens = TokenFile(str(path))
    assert tokens.verify("a") == Grant("alice", frozenset({"Abort"}))
    assert tokens.verify("b") == Grant("bob")
    path.write_text(f"bob {B}\n")
    with pytest.raises(UnauthenticatedError) as caught:
        tokens.verify("a")
    assert caught.value.reason == "TOKEN_UNKNOWN"
    path.write_text("")
    with pytest.raises(UnauthenticatedError):
        tokens.verify("b")
    for wrong in ("", B, "b ", "\udc80"):
        with pytest.raises(UnauthenticatedError):
            tokens.verify(wrong)


@pytest.mark.parametrize("values", [["Bearer x"], ["bearer x"], ["BEARER   x "]], ids=lambda values: str(values))
def test_the_token_of_a_call(values: list[str]) -> None:
    assert bearer([("user-agent", "y"), *(("authorization", value) for value in values)]) == "x"


@pytest.mark.parametrize(
    "values", [[], [""], ["x"], ["Bearer"], ["Bearer "], ["Basic x"], ["Bearer x", "Bearer x"], [b"Bearer x"]]
)
def test_a_call_without_one(values: list[str | bytes]) -> None:
    with pytest.raises(UnauthenticatedError, match="authorization: Bearer TOKEN") as caught:
        bearer([("authorization", value) for value in values])
    assert caught.value.reason == "TOKEN_MISSING"


@pytest.mark.parametrize(
    ("context", "name"),
    [
        ({}, ""),
        ({"transport_security_type": [b"ssl"]}, ""),
        ({"x509_common_name": [b"agent 7"], "x509_subject_alternative_name": [b"x"]}, "agent 7"),
        ({"x509_common_name": [b"a\nb"], "x509_subject_alternative_name": [b"a.example"]}, "a.example"),
        ({"x509_common_name": [b""]}, ""),
    ],
)
def test_the_name_of_a_certificate(context: dict[str, list[bytes]], name: str) -> None:
    assert certificate_name(context) == name


def test_names_fit_a_line_of_a_log() -> None:
    assert is_name("auth0|42")
    assert not any(map(is_name, ("", "a\nb", "a\x1b[0m", "x" * 129)))


def test_the_command_prints_a_token_and_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "alice", "--methods", "Converse,Abort"]) == 0
    token, line = capsys.readouterr().out.splitlines()
    assert parse(line.encode(), "file") == ((digest_of(token), Grant("alice", frozenset({"Converse", "Abort"}))),)
    assert main(["token", "alice"]) == 0
    other, line = capsys.readouterr().out.splitlines()
    assert other != token
    assert line == f"alice {digest_of(other)}"


def test_the_command_refuses_what_no_line_can_have(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "a b"]) == 2
    assert main(["token", "alice", "--methods", "Sing"]) == 2
    assert "'Sing' is no method; there are" in capsys.readouterr().err
