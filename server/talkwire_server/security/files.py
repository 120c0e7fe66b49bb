"""What is read from files, and read again when they change, without a restart and without a thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from talkwire_pipeline.errors import DeployError

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 1 << 20
"""Certificates and lists of keys have some kilobytes."""
SETTLED_S = 2.0
"""A file that was written so shortly before it was read may have been written again under the same time."""
_T = TypeVar("_T")
_Stamp = tuple[tuple[int, ...] | None, ...]


class Reread(Generic[_T]):
    """The value that some files have now. Whoever asks looks at the files first, which is one `stat` each.

    Files that cannot be used leave the last good value in force, and the log says so once. Safe from any thread.

    Args:
        name: the key of the deploy file that names them, for messages.
        paths: the files.
        parse: makes the value of their bytes; raises `DeployError` for what it cannot use.
        told: hears of every reading after the first: True, or False where it was in vain.

    Raises `DeployError` where the first reading fails.
    """

    def __init__(
        self,
        name: str,
        paths: Sequence[str],
        parse: Callable[[list[bytes]], _T],
        told: Callable[[bool], None] = lambda ok: None,
    ) -> None:
        self._name = name
        self._paths = [Path(path) for path in paths]
        self._parse = parse
        self._told = told
        self._lock = threading.Lock()
        self._fault = ""
        self._stamp = self._look()
        self._content = self._read()
        self._value = parse(self._content)

    def get(self) -> _T:
        """The value."""
        with self._lock:
            stamp = self._look()
            if stamp != self._stamp or not _settled(stamp):
                self._stamp = stamp
                self._update()
            return self._value

    def _update(self) -> None:
        try:
            content = self._read()
            if content == self._content:
                return
            self._content = content  # also where it is of no use: that is said once
            self._value = self._parse(content)
        except DeployError as error:
            self._refuse(error.message)
        else:
            self._fault = ""
            log.info("%s: read again", self._name)
            self._told(True)

    def _refuse(self, fault: str) -> None:
        if fault != self._fault:
            self._fault = fault
            log.warning("%s; what was read before stays in force", fault)
            self._told(False)

    def _look(self) -> _Stamp:
        return tuple(map(_stat, self._paths))

    def _read(self) -> list[bytes]:
        return [self._bytes(path) for path in self._paths]

    def _bytes(self, path: Path) -> bytes:
        try:
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise DeployError(f"{self._name}: {path} cannot be read: {error.strerror}") from error
        if len(data) > MAX_FILE_BYTES:
            raise DeployError(f"{self._name}: {path} has more than {MAX_FILE_BYTES} bytes: it must be another file")
        return data


def _stat(path: Path) -> tuple[int, ...] | None:
    """What changes when a file does; its number does when another takes its place. None: it cannot be seen."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _settled(stamp: _Stamp) -> bool:
    """Whether a later writing would show in the stamp."""
    now_ns = time.time_ns()
    return all(each is None or now_ns - each[-1] > SETTLED_S * 1e9 for each in stamp)
