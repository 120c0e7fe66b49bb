"""Where tokens may go, and what goes together."""

from __future__ import annotations

import argparse
from pathlib import Path

import grpc
import pytest

from talkwire import InvalidArgument, SpeechClient, Tls
from talkwire.access import access, is_loopback
from talkwire.cli import EXIT_USAGE, main, parser
from talkwire.cli_options import TOKEN_VARIABLE, client

LOCAL = [
    "localhost:50051",
    "localhost",
    "127.0.0.1:50051",
    "127.1.2.3:1",
    "[::1]:50051",
    "::1",
    "dns:localhost:50051",
    "dns:///localhost:50051",
    "dns:///[::1]:50051",
    "ipv4:127.0.0.1:50051",
    "ipv4:127.0.0.1:1,127.0.0.1:2",
    "ipv6:[::1]:50051",
    "unix:/run/talkwire.sock",
    "unix-abstract:talkwire",
]
REMOTE = [
    "",
    "example.com:50051",
    "localhost.example.com:50051",
    "127.0.0.1.example.com:50051",
    "10.0.0.1:50051",
    "0.0.0.0:50051",
    "[2001:db8::1]:50051",
    "2001:db8::1",
    "[example.com]:1",
    "dns:///example.com:50051",
    "dns://8.8.8.8/localhost:50051",
    "ipv4:127.0.0.1:1,10.0.0.1:1",
    "xds:///localhost:50051",
    "localhost/:50051",
    "user@localhost:50051",
]


@pytest.mark.parametrize("target", LOCAL)
def test_this_machine(target: str) -> None:
    assert is_loopback(target)


@pytest.mark.parametrize("target", REMOTE)
def test_other_machines(target: str) -> None:
    assert not is_loopback(target)


def test_a_token_goes_to_loopback_in_plain_text_and_past_proxies() -> None:
    plain = access("localhost:1", token="x", metadata=[("a", "b")])
    assert plain.metadata == (("a", "b"), ("authorization", "Bearer x"))
    assert plain.credentials is None
    assert plain.options == (("grpc.enable_http_proxy", 0),)


def test_a_token_goes_anywhere_over_tls_and_is_no_metadata() -> None:
    for secure in (access("example.com:1", token="x", tls=Tls()), access("localhost:1", token="x", tls=Tls())):
        assert secure.metadata == ()
        assert secure.credentials is not None
    assert access("example.com:1", token="x", credentials=grpc.ssl_channel_credentials()).metadata == ()


def test_a_token_goes_nowhere_else() -> None:
    with pytest.raises(InvalidArgument, match=r"token: example.com:1 would get it in plain text: give tls") as caught:
        SpeechClient("example.com:1", token="secret")
    assert caught.value.violations[0].field == "token"
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("token", ["", " ", "a b", "a\n", "é", "a\x00"])
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(InvalidArgument, match="token: is empty, or has blanks"):
        access("localhost:1", token=token)


def test_tls_is_said_once_and_whole(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="tls: credentials are given"):
        access("a:1", tls=Tls(), credentials=grpc.ssl_channel_credentials())
    for half in (Tls(certificate="a"), Tls(key="a")):
        with pytest.raises(InvalidArgument, match="tls: certificate and key go together"):
            half.credentials()
    missing = tmp_path / "ca.pem"
    with pytest.raises(InvalidArgument, match=f"tls.ca: {missing} cannot be read: No such file") as caught:
        Tls(missing).credentials()
    assert caught.value.violations[0].field == "tls.ca"
    missing.write_text("nonsense")
    with pytest.raises(InvalidArgument, match="tls: the files are no PEM"):
        Tls(missing).credentials()
    with pytest.raises(InvalidArgument, match="tls: the files are no PEM"):
        Tls(None, missing, missing).credentials()


def arguments(*argv: str) -> argparse.Namespace:
    return parser().parse_args(["health", *argv])


def test_the_command_line_takes_a_token_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    path.write_text("b\u0020c\n")
    monkeypatch.setenv(TOKEN_VARIABLE, "")
    client(arguments("--target", "example.com:1"))
    monkeypatch.setenv(TOKEN_VARIABLE, "a")
    client(arguments())
    client(arguments("--target", "example.com:1", "--tls"))
    with pytest.raises(InvalidArgument, match="plain text"):
        client(arguments("--target", "example.com:1"))
    with pytest.raises(InvalidArgument, match="must hold the token"):  # the file, not the variable
        client(arguments("--token-file", str(path)))


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--token-file", "no/such/file"], "--token-file no/such/file: cannot be read"),
        (["--tls-cert", "a"], "tls: certificate and key go together"),
        (["--tls-ca", "no/such/file"], "tls.ca: no/such/file cannot be read"),
    ],
)
def test_wrong_files_are_wrong_usage(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", *argv]) == EXIT_USAGE
    assert words in capsys.readouterr().err
