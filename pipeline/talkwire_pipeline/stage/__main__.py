"""`python -m talkwire_pipeline.stage NAME FD`: one stage. The supervisor starts it; FD holds its configuration."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from pathlib import Path

from talkwire_pipeline.stage import logs, process
from talkwire_pipeline.stage.config import read_config


def main() -> int:
    """Runs the stage and returns its exit status."""
    config = read_config(int(sys.argv[2]))
    leave_with_parent(config.life)
    faulthandler.enable()
    logs.configure(config.log_level)
    Path("/proc/self/comm").write_text(f"talkwire-{config.stage}", encoding="ascii")  # the name in ps and top
    os.nice(config.niceness)
    return process.run(config)


def leave_with_parent(life: int) -> None:
    """Ends this process when the pipe `life` is closed at its other end.

    A thread of its own, since the loop cannot look while it loads or computes: an orphan would keep its memory
    for as long as that takes.
    """

    def wait() -> None:
        os.read(life, 1)  # nobody writes: it returns at the end of file only
        os._exit(0)

    threading.Thread(target=wait, name="life", daemon=True).start()


if __name__ == "__main__":
    ended = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ended)  # taking torch apart can last seconds, and all that it frees goes with the process
