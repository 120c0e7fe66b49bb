"""The console script: says what to install where only the client was installed."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs `talkwire-server`; the exit code."""
    try:
        from talkwire_server import cli
    except ModuleNotFoundError as error:
        print(
            f"talkwire-server: {error.name} is not installed; the extra talkwire[server] brings all that it needs",
            file=sys.stderr,
        )
        return 1
    return cli.main()
