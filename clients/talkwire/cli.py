"""`talkwire`: the client on the command line.

Exit status: 0 done, 1 failed, 2 wrong usage or refused input, 3 no server to serve it, 130 interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Coroutine, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from google.protobuf.json_format import MessageToDict, MessageToJson

from talkwire.cli_bench import bench
from talkwire.cli_options import client, server_options, speaks_tls
from talkwire.cli_say import say
from talkwire.client import Health
from talkwire.errors import InvalidArgument, TalkwireError, Unavailable

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNAVAILABLE = 3
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status; errors are one line on stderr."""
    arguments = parser().parse_args(argv)
    command: Coroutine[Any, Any, None] = arguments.command(arguments)
    try:
        asyncio.run(command)
        sys.stdout.flush()
        return 0
    except TalkwireError as error:
        print(f"talkwire: {error.message}{_advice(error, arguments)}", file=sys.stderr)
        return exit_status(error)
    except BrokenPipeError:  # whoever reads our output has had enough; Python would say so once more when it leaves
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except OSError as error:
        print(f"talkwire: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def exit_status(error: TalkwireError) -> int:
    """The exit status that an error stands for."""
    if isinstance(error, InvalidArgument):
        return EXIT_USAGE
    return EXIT_UNAVAILABLE if isinstance(error, Unavailable) else EXIT_FAILED


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    top = argparse.ArgumentParser(prog="talkwire", description="Speaks text through a talkwire server.")
    top.add_argument("--version", action="version", version=f"talkwire {_version()}")
    common = server_options()
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    _say_options(commands.add_parser("say", parents=[common, _speech_options()], help="speak into a file or aloud"))
    _bench_options(commands.add_parser("bench", parents=[common, _speech_options()], help="measure a server"))
    info = commands.add_parser("info", parents=[common], help="what the server runs")
    info.add_argument("--json", action="store_true", help="everything, as JSON")
    info.set_defaults(command=_info)
    commands.add_parser("health", parents=[common], help="whether it serves").set_defaults(command=_health)
    return top


def _say_options(say_parser: argparse.ArgumentParser) -> None:
    say_parser.add_argument("text", nargs="?", help="what to speak; '-' speaks stdin as it is typed")
    say_parser.add_argument(
        "-o", "--output", default="speech.wav", help="the file to write (%(default)s); '-' is samples on stdout"
    )
    say_parser.add_argument("--play", action="store_true", help="play it instead (extra talkwire[play])")
    say_parser.add_argument("--file", help="speak each line of this file instead")
    say_parser.add_argument("--out", default=".", help="folder for the files of --file (%(default)s)")
    say_parser.add_argument("--parallel", type=_count, default=4, help="lines at the same time (%(default)s)")
    say_parser.add_argument("--stream", action="store_true", help="send it word by word")
    say_parser.add_argument(
        "--words-per-s", type=_pace, default=20.0, help="pace of --stream for a given text (%(default)g)"
    )
    say_parser.set_defaults(command=say)


def _bench_options(bench_parser: argparse.ArgumentParser) -> None:
    bench_parser.add_argument(
        "--streams", type=_counts, default=[1, 4], help="loads to run, as 1,4: utterances at the same time"
    )
    bench_parser.add_argument("--utterances", type=_count, default=12, help="utterances of each load (%(default)s)")
    bench_parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    bench_parser.set_defaults(command=bench)


def _speech_options() -> argparse.ArgumentParser:
    """Settings of an utterance; names are those of `talkwire.Options`."""
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--voice", help="name of a voice")
    options.add_argument("--language", help='BCP 47 tag, such as "en-US"')
    options.add_argument("--sample-rate-hz", type=int, help="samples a second (24000)")
    options.add_argument("--geometry", help="exact, exact-fast, v1 or v2")
    options.add_argument("--temperature", type=float, help="0 is greedy")
    options.add_argument("--top-p", type=float, help="share of the probability that is drawn from")
    options.add_argument("--top-k", type=int, help="codes that are drawn from; 0 is off")
    options.add_argument("--seed", type=int, help="same seed, same audio")
    options.add_argument("--timeout-s", type=float, help="limit for each utterance")
    return options


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def _pace(text: str) -> float:
    try:
        pace = float(text)
    except ValueError:
        pace = 0.0
    if not 0 < pace < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return pace


def _counts(text: str) -> list[int]:
    return [_count(part) for part in text.split(",")]


async def _info(arguments: argparse.Namespace) -> None:
    async with client(arguments) as server:
        info = await server.info()
    if arguments.json:
        print(MessageToJson(info, preserving_proto_field_name=True))
        return
    values = MessageToDict(info, preserving_proto_field_name=True)
    for name, field in info.DESCRIPTOR.fields_by_name.items():
        if name in values and name != "deploy_json":
            is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
            print("\n".join(_lines(name, values[name], is_map)))


async def _health(arguments: argparse.Namespace) -> None:
    async with client(arguments) as server:
        health = await server.health()
    print(health.name)
    if health is not Health.SERVING:
        raise Unavailable(f"{arguments.target} is {health.name}", reason=health.name)


def _lines(name: str, value: object, is_map: bool) -> Iterator[str]:
    """A field of the answer: what has parts has a line for each."""
    if isinstance(value, dict):
        yield f"{name}:"
        for key, item in sorted(value.items()) if is_map else value.items():
            yield f"  {key}: {_flat(item)}"
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield f"{name}:"
        for item in value:
            yield f"  {_flat(item)}"
    else:
        yield f"{name}: {_flat(value)}"


def _flat(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_flat(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "; ".join(_flat(item) for item in value)
    return str(value)


def _version() -> str:
    try:
        return version("talkwire")
    except PackageNotFoundError:
        return "(not installed)"


def _advice(error: TalkwireError, arguments: argparse.Namespace) -> str:
    if error.retry_after_s is not None:
        return f" (try again in {error.retry_after_s:g} s)"
    if isinstance(error, Unavailable) and not error.reason:  # a server of ours gives a reason: this is gRPC's own
        return f" (is there a server at {arguments.target}? `talkwire-server serve` starts one{_tls(error, arguments)})"
    return ""


def _tls(error: TalkwireError, arguments: argparse.Namespace) -> str:
    if not speaks_tls(arguments):
        return "; --tls or --tls-ca if it speaks TLS"
    words = {
        "CERTIFICATE_VERIFY_FAILED": "; --tls-ca names the file of who vouches for its certificate",
        "WRONG_VERSION_NUMBER": "; leave --tls and the like out if it speaks plain text",
    }
    return next((hint for word, hint in words.items() if word in error.message), "")


if __name__ == "__main__":
    sys.exit(main())
