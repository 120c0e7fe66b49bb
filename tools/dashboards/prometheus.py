"""The programs of Prometheus, which are not Python's: `make promtool` gets them where there is apt."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tools import debian

MISSING = "promtool is not here: `make promtool` gets it on Debian and Ubuntu, PROMTOOL names one"
"""What is said where they are not there."""
STOP_S = 20.0
"""A Prometheus that has not left by then is killed."""


def find(name: str) -> Path | None:
    """Path of `promtool` or `prometheus`: the environment's (`PROMTOOL`, `PROMETHEUS`), the cache's, that of PATH."""
    return debian.find(name, "prometheus")


def promtool(*arguments: str | Path) -> str:
    """Runs promtool; what it printed. Raises `RuntimeError` with that where it finds fault, or is not here."""
    program = find("promtool")
    if program is None:
        raise RuntimeError(MISSING)
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr
    if done.returncode != 0:
        raise RuntimeError(printed)
    return printed


@contextmanager
def running(folder: Path, configuration: str, *arguments: str) -> Iterator[str]:
    """Starts a Prometheus on a free port of loopback, with all that it writes in `folder`; its URL, when it answers.

    Raises `RuntimeError` where there is none, and where it does not start.
    """
    program = find("prometheus")
    if program is None:
        raise RuntimeError(MISSING)
    (folder / "prometheus.yml").write_text(configuration)
    command = [*_command(program, folder), *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        yield f"http://{_address(process.stderr)}"
    finally:
        _stop(process)


def _command(program: Path, folder: Path) -> list[str]:
    return [
        str(program),
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}",
        "--web.listen-address=127.0.0.1:0",
        "--log.format=json",
    ]


def _address(log: IO[str]) -> str:
    """Waits until it answers; where."""
    address, seen = "", []
    for line in log:
        seen.append(line)
        said = json.loads(line)
        message = said.get("msg", "")
        if message == "Listening on":
            address = said["address"]
        if message.startswith("Server is ready"):
            return address
    raise RuntimeError(f"Prometheus did not start:\n{''.join(seen[-10:])}")


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
