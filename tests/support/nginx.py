"""A real nginx with the configuration of docs/recipes/nginx.md, as far as it can be had."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools import debian

PAGE = Path(__file__).parents[2] / "docs" / "recipes" / "nginx.md"
MISSING = "nginx is not here: `make nginx` gets it on Debian and Ubuntu, NGINX names one"
STOP_S = 20.0
"""An nginx that has not left by then is killed."""
_FOLDERS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def runnable() -> Path | None:
    """Where there is one that has all its libraries and speaks gRPC."""
    program = debian.find("nginx", "nginx")
    if program is None:
        return None
    built = subprocess.run([program, "-V"], capture_output=True, text=True, check=False)
    return program if built.returncode == 0 and "http_v2_module" in built.stderr else None


def examples() -> list[str]:
    """The page's blocks: the whole configuration, and what TLS changes."""
    return re.findall(r"```nginx\n(.*?)```", PAGE.read_text(), re.DOTALL)


@contextmanager
def in_front(configuration: str, folder: Path, server: str) -> Iterator[str]:
    """Runs nginx with it in front of `server`; host and port for callers.

    All that it writes lies in `folder`. It gets its socket from us, so that the port is free and is there at once.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)  # else the worker that comes second waits in `accept`
        target = f"127.0.0.1:{listener.getsockname()[1]}"
        changed = re.sub(r"listen \S+?(?=[; ])", f"listen {target}", configuration)
        changed = re.sub(r"(?<=\bserver )[\w.:]+(?=;)", server, changed)
        (folder / "nginx.conf").write_text(changed.replace("http {", "http {\n" + _paths(folder), 1))
        process = _start(folder, listener.fileno())
    try:
        yield target
    finally:
        _stop(process)


def complaints(folder: Path) -> list[str]:
    """What it had to say beyond notices."""
    return [line for line in (folder / "error.log").read_text().splitlines() if "[notice]" not in line]


def _paths(folder: Path) -> str:
    return "".join(f"    {name}_temp_path {folder}/{name};\n" for name in _FOLDERS)


def _start(folder: Path, listener: int) -> subprocess.Popen[bytes]:
    process_wide = f"daemon off; pid {folder}/pid; error_log {folder}/error.log warn;"
    command = [str(runnable()), "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
    environment = {**os.environ, "NGINX": f"{listener};"}  # that is how nginx hands sockets to its successor
    return subprocess.Popen([*command, "-g", process_wide], env=environment, pass_fds=[listener])


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
