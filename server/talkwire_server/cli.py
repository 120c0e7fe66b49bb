"""`talkwire-server`: serve, speak a file of texts offline, show the resolved deployment, make tokens."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

from talkwire_pipeline.deploy import Deploy, load
from talkwire_pipeline.deploy.files import profiles
from talkwire_pipeline.deploy.schema import Platform
from talkwire_pipeline.deploy.show import difference, render
from talkwire_pipeline.errors import DeployError, InvalidArgumentError, TalkwireError
from talkwire_server import logs
from talkwire_server.security.tokens import line_of, new_token
from talkwire_server.version import version

log = logging.getLogger(__name__)

USAGE_ERROR = 2
"""Exit code where the command line, the deployment or a port is at fault; 1 is for what fails later."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code."""
    options = _parser().parse_args(arguments)
    logs.setup(options.log_level, options.log_format)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except TalkwireError as error:
        print(f"talkwire-server: {error.message}", file=sys.stderr)
        usage = isinstance(error, DeployError | InvalidArgumentError) or error.reason == "PORT_IN_USE"
        return USAGE_ERROR if usage else 1
    except OSError as error:
        print(f"talkwire-server: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="talkwire-server", description="Streaming text-to-speech over gRPC.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve = _command(commands, "serve", _serve, "serve until SIGTERM")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument("--port", type=_port, default=50051, help="gRPC port, 0: any free one (default: %(default)s)")
    serve.add_argument("--metrics-port", type=_port, help="HTTP port of /metrics, /healthz, /readyz; 0: any free one")
    offline = _command(commands, "synthesize", _synthesize, "speak every line of a file into a WAV file")
    offline.add_argument("--texts", type=Path, required=True, help="file with one text a line")
    offline.add_argument("--out", type=Path, required=True, help="folder for 0001.wav, 0002.wav, ...")
    config = _command(commands, "config", _config, "print the resolved deployment, and where each value came from")
    what = config.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="only say what is wrong, with exit code 2, and warnings")
    what.add_argument("--diff", metavar="PROFILE", help="print what is not the same in this deploy file or profile")
    _token_command(commands)
    return parser


def _token_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    does = "make a token: prints it, and its line of server.auth.tokens_file"
    token = commands.add_parser("token", help=does, description=does)
    token.add_argument("name", metavar="NAME", help="of the key: in logs and limits")
    token.add_argument("--methods", default="", metavar="METHOD,METHOD", help="what it may call (default: everything)")
    token.set_defaults(command=_token, log_level="warning", log_format="text")


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace, Deploy], int],
    does: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=does, description=does)
    shipped = ", ".join(profiles())
    source = f"deploy file (.yaml), or a shipped profile: {shipped} (default: %(default)s)"
    parser.add_argument("--profile", default="demo", help=source)
    platform = "where it runs (default: TALKWIRE_PLATFORM, else what this machine is)"
    parser.add_argument("--platform", choices=get_args(Platform), help=platform)
    example = "set a key of the deployment, as talker.max_num_seqs=4; may be given again"
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=example)
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    parser.add_argument("--log-format", default="text", choices=("text", "json"))
    parser.set_defaults(command=lambda options: run(options, _load(options, options.profile)))
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535")
    return int(text)


def _load(options: argparse.Namespace, profile: str) -> Deploy:
    return load(profile, platform=options.platform, overrides=_overrides(options))


def _warn(deploy: Deploy) -> None:
    for warning in deploy.warnings:
        log.warning("%s", warning)


def _overrides(options: argparse.Namespace) -> list[str]:
    port = getattr(options, "metrics_port", None)
    return [*options.set, *([] if port is None else [f"server.metrics_port={port}"])]


def _serve(options: argparse.Namespace, deploy: Deploy) -> int:
    from talkwire_server.app import serve

    _warn(deploy)
    gc.freeze()  # what was imported stays: a full collection would look through it while callers wait for audio
    asyncio.run(serve(deploy, host=options.host, port=options.port, announce=lambda line: print(line, flush=True)))
    return 0


def _synthesize(options: argparse.Namespace, deploy: Deploy) -> int:
    from rich.console import Console

    from talkwire_server.offline import synthesize, table

    _warn(deploy)
    texts = _lines(options.texts)
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    spoken = asyncio.run(synthesize(deploy, texts, options.out, console))
    console.print(table(spoken))
    return 1 if any(each.fault for each in spoken) else 0


def _lines(path: Path) -> list[str]:
    try:
        texts = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"--texts {path}", f"not UTF-8 at byte {error.start}") from error
    if not texts:
        raise InvalidArgumentError(f"--texts {path}", "no text in it")
    return texts


def _config(options: argparse.Namespace, deploy: Deploy) -> int:
    if options.check:
        print("\n".join(deploy.warnings), end="\n" if deploy.warnings else "")
    elif options.diff is not None:
        print(difference(deploy, _load(options, options.diff)), end="")
    else:
        print(render(deploy), end="")
    return 0


def _token(options: argparse.Namespace) -> int:
    token = new_token()
    line = line_of(options.name, token, options.methods.split(",") if options.methods else ())
    print(f"{token}\n{line}")
    print("the first line is the caller's, and nobody can find it again; the second is the server's", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
