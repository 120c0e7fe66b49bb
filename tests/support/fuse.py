"""Something that happens at one of the coming system calls of a ring's ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

import pytest


class KilledError(BaseException):
    """Where a process would have been killed."""


def kill() -> None:
    raise KilledError


class Fuse:
    """Does something, kills above all, before or after one of the coming system calls."""

    def __init__(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.left = -1
        self.act: Callable[[], None] = kill
        for name in ("eventfd_read", "eventfd_write"):
            self.patch.setattr(os, name, self._burning(getattr(os, name)))

    def _burning(self, call: Callable[..., int]) -> Callable[..., int]:
        def burning(*arguments: int) -> int:
            self._burn()
            try:
                return call(*arguments)
            finally:
                self._burn()

        return burning

    def _burn(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.act()

    @contextlib.contextmanager
    def lit(self, length: int) -> Iterator[None]:
        """Runs the block until the fuse is down; it may end before."""
        self.left = length
        try:
            yield
        finally:
            self.left = -1
