"""A Dockerfile's first stage as a shell script: its own RUN commands, where there is no Docker engine to run them.

`python -m tools.dockerfile docker/Dockerfile FOLDER | sh` runs it with FOLDER for the image's root. ARGs are taken from
the environment where it has them. The base image is not there: its `python` is the one on the PATH.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_PLACE = re.compile(r"(?<![\w.])/(?=opt/|src\b)")


class Instruction(NamedTuple):
    """One instruction: its name in capitals and all that follows it, on one line."""

    name: str
    argument: str


def instructions(text: str) -> list[Instruction]:
    """What a Dockerfile says, without comments; lines that end with a backslash are one."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    whole = re.sub(r"\\\n\s*", "", lines)
    return [Instruction(*line.split(maxsplit=1)) for line in whole.splitlines() if line.strip()]


def stages(text: str) -> list[list[Instruction]]:
    """The instructions of each stage, its FROM first; the ARGs before the first FROM belong to none."""
    found: list[list[Instruction]] = []
    for instruction in instructions(text):
        if instruction.name == "FROM":
            found.append([])
        if found:
            found[-1].append(instruction)
    return found


def context(ignore: str) -> list[str]:
    """What a `.dockerignore` that begins with `*` lets through."""
    return [line[1:] for line in ignore.splitlines() if line.startswith("!")]


def script(stage: list[Instruction], copied: list[str]) -> str:
    """The stage for `sh`, with `$ROOT` before the image's own folders; `copied` is what `COPY . .` brings."""
    return "\n".join(("set -eu", 'CONTEXT="$PWD"', *_lines(stage, copied))) + "\n"


def _lines(stage: list[Instruction], copied: list[str]) -> Iterator[str]:
    for name, argument in stage:
        there = _PLACE.sub("$ROOT/", argument)
        match name:
            case "ARG":
                key, _, default = argument.partition("=")
                yield f'{key}="${{{key}-{default}}}"'
            case "ENV":
                yield f"export {there}"
            case "WORKDIR":
                yield f'mkdir -p "{there}"; cd "{there}"'
            case "COPY":
                yield "cp -R " + " ".join(f'"$CONTEXT/{shlex.quote(path)}"' for path in copied) + " ."
            case "RUN":
                yield f"echo {shlex.quote('+ ' + argument)}; {there}"


def main(path: Path, root: Path) -> None:
    """Prints the script."""
    stage = stages(path.read_text(encoding="utf-8"))[0]
    print(f"ROOT={shlex.quote(str(root.resolve()))}")
    print(script(stage, context(Path(".dockerignore").read_text(encoding="utf-8"))), end="")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
