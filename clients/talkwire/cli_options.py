"""From parsed arguments to the settings of an utterance, and to a client."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import cast

from talkwire.access import Tls
from talkwire.client import DEFAULT_TARGET, SpeechClient
from talkwire.errors import InvalidArgument
from talkwire.options import Options

TOKEN_VARIABLE = "TALKWIRE_TOKEN"
"""Environment variable that has the token, where no file is given: arguments are for all to see."""


def server_options() -> argparse.ArgumentParser:
    """Which server, and how it is called."""
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--target", type=_target, default=DEFAULT_TARGET, help="host:port of the server (%(default)s)")
    options.add_argument("--tls", action="store_true", help="speak TLS; so do the other options of TLS")
    options.add_argument("--tls-ca", metavar="FILE", help="PEM of who vouches for the server (default: gRPC's list)")
    options.add_argument("--tls-cert", metavar="FILE", help="PEM of a certificate to show")
    options.add_argument("--tls-key", metavar="FILE", help="PEM of its key")
    options.add_argument("--token-file", metavar="FILE", help=f"file of the token (default: {TOKEN_VARIABLE})")
    return options


def client(arguments: argparse.Namespace) -> SpeechClient:
    """The client that `server_options` describe. Raises `InvalidArgument`."""
    tls = Tls(arguments.tls_ca, arguments.tls_cert, arguments.tls_key) if speaks_tls(arguments) else None
    return SpeechClient(arguments.target, tls=tls, token=_token(arguments.token_file))


def speaks_tls(arguments: argparse.Namespace) -> bool:
    """Whether one of the options of TLS was given."""
    return bool(arguments.tls or arguments.tls_ca or arguments.tls_cert or arguments.tls_key)


def _token(path: str | None) -> str | None:
    if path is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"--token-file {path}: cannot be read: {error}") from None
    if len(token.split()) != 1:
        raise InvalidArgument(f"--token-file {path}: must hold the token and nothing else, not the server's line of it")
    return token


def _target(text: str) -> str:
    if ":" not in text:  # gRPC would take port 443
        raise argparse.ArgumentTypeError(f"{text!r} has no port: give host:port")
    return text


def speech_options(arguments: argparse.Namespace) -> Options:
    """The settings that were given; everything else is left to the deployment."""
    given = {key: value for key, value in vars(arguments).items() if key in Options.__annotations__}
    return cast(Options, {key: value for key, value in given.items() if value is not None})
