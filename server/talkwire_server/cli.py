"""`talkwire-server`: serve, speak a file of texts offline, show the resolved deployment."""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import yaml

from talkwire_pipeline.deploy import Deploy, load
from talkwire_pipeline.deploy.load import profiles
from talkwire_pipeline.errors import DeployError, InvalidArgumentError, TalkwireError
from talkwire_server import logs
from talkwire_server.version import version

USAGE_ERROR = 2
"""Exit code where the command line, the deployment or a port is at fault; 1 is for what fails later."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code."""
    options = _parser().parse_args(arguments)
    logs.setup(options.log_level, options.log_format)
    command: Callable[[argparse.Namespace, Deploy], int] = options.command
    try:
        return command(options, load(options.profile, overrides=_overrides(options)))
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
    _command(commands, "config", _config, "print the resolved deployment as YAML")
    return parser


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
    example = "set a key of the deployment, as talker.max_num_seqs=4; may be given again"
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=example)
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    parser.add_argument("--log-format", default="text", choices=("text", "json"))
    parser.set_defaults(command=run)
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535")
    return int(text)


def _overrides(options: argparse.Namespace) -> list[str]:
    port = getattr(options, "metrics_port", None)
    return [*options.set, *([] if port is None else [f"server.metrics_port={port}"])]


def _serve(options: argparse.Namespace, deploy: Deploy) -> int:
    from talkwire_server.app import serve

    gc.freeze()  # what was imported stays: a full collection would look through it while callers wait for audio
    asyncio.run(serve(deploy, host=options.host, port=options.port, announce=lambda line: print(line, flush=True)))
    return 0


def _synthesize(options: argparse.Namespace, deploy: Deploy) -> int:
    from rich.console import Console

    from talkwire_server.offline import synthesize, table

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


def _config(_options: argparse.Namespace, deploy: Deploy) -> int:
    yaml.safe_dump(msgspec.to_builtins(deploy), sys.stdout, sort_keys=False, allow_unicode=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
