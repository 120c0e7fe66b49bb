"""Log lines: one event a line, with the utterance's `server_id` where there is one, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from typing import Literal, TextIO

LogFormat = Literal["text", "json"]
_FIELDS = ("server_id", "stage", "key")
"""What a record may carry through `extra=` beside its message."""


class TextFormatter(logging.Formatter):
    """`time level logger message key=value`, for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line, with the record's own fields behind it."""
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        return super().formatMessage(record) + fields


class JsonFormatter(logging.Formatter):
    """One JSON object a line, for machines; times in seconds since the epoch."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        entry = {
            "time": round(record.created, 6),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def _fields(record: logging.LogRecord) -> dict[str, str]:
    return {name: str(value) for name in _FIELDS if (value := getattr(record, name, None))}


def setup(level: str = "info", form: LogFormat = "text", stream: TextIO | None = None) -> None:
    """Sends all log lines from `level` up to `stream` (standard error), in the form asked for."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
