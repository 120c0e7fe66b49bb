"""A stage's log: it writes JSON lines to its standard error, the server forwards them into its own `logging`."""

from __future__ import annotations

import logging
import sys

import msgspec

from talkwire_pipeline.messages import StageName


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line. `level` as numbers of `logging`; `message` with the traceback, if there is one."""

    level: int
    logger: str
    message: str


class LineFormatter(logging.Formatter):
    """Makes a record a `LogLine`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        message = super().format(record)
        return msgspec.json.encode(LogLine(level=record.levelno, logger=record.name, message=message)).decode()


def configure(level: int) -> None:
    """In the stage: everything from `level` up, warnings included, goes to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(True)


def forward(stage: StageName, line: bytes) -> str:
    """In the server: logs a line of the stage and returns its message.

    What is no `LogLine` (a library's print, the interpreter's last words) is logged as a warning.
    """
    try:
        entry = msgspec.json.decode(line, type=LogLine)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = line.decode(errors="replace").rstrip()
        entry = LogLine(level=logging.WARNING, logger=f"talkwire.stage.{stage}", message=text)
    logging.getLogger(entry.logger).log(entry.level, "%s", entry.message, extra={"stage": stage})
    return entry.message
