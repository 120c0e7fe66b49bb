"""Files that are read again: what changes them, and what does not."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from talkwire_pipeline.errors import DeployError
from talkwire_server.security.files import MAX_FILE_BYTES, SETTLED_S, Reread


def number(files: list[bytes]) -> int:
    if not files[0].isdigit():
        raise DeployError(f"{files[0]!r} is no number")
    return int(files[0])


def age(path: Path) -> None:
    """Makes the file look as if it had been there for long."""
    os.utime(path, ns=(0, 0))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "number"
    path.write_text("1")
    return path


@pytest.mark.parametrize("old", [True, False])
def test_the_value_follows_the_file(path: Path, old: bool) -> None:
    reread = Reread("server.x", [str(path)], number)
    if old:
        age(path)
    assert reread.get() == 1
    path.write_text("2")
    assert reread.get() == 2
    fresh = path.with_suffix(".new")
    fresh.write_text("3")
    fresh.replace(path)
    assert reread.get() == 3


def test_a_second_writing_of_the_same_size_within_one_tick_is_seen(path: Path) -> None:
    reread = Reread("server.x", [str(path)], number)
    for value in range(2, 10):
        times = path.stat()
        path.write_text(str(value))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert reread.get() == value


def test_a_settled_file_is_not_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[list[bytes]] = []
    now_ns = time.time_ns()
    reread = Reread("server.x", [str(path)], lambda files: reads.append(files) or len(reads))
    monkeypatch.setattr(time, "time_ns", lambda: now_ns + int((SETTLED_S + 1) * 1e9))
    path.chmod(0)
    path.chmod(0o600)  # another stamp, the same content
    assert [reread.get(), reread.get()] == [1, 1]
    assert len(reads) == 1


def test_what_cannot_be_used_leaves_the_last_and_is_told_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told: list[bool] = []
    reread = Reread("server.x", [str(path)], number, told.append)
    path.write_text("two")
    assert [reread.get(), reread.get()] == [1, 1]
    path.unlink()
    assert [reread.get(), reread.get()] == [1, 1]
    path.write_text("2")
    assert [reread.get(), reread.get()] == [2, 2]
    assert told == [False, False, True]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "b'two' is no number; what was read before stays in force" in caplog.messages[0]
    assert f"server.x: {path} cannot be read: No such file" in caplog.messages[1]


def test_the_old_content_comes_back_after_a_broken_one(path: Path) -> None:
    reread = Reread("server.x", [str(path)], number)
    for text, value in (("two", 1), ("1", 1), ("two", 1), ("3", 3)):
        path.write_text(text)
        assert reread.get() == value


def test_the_first_reading_has_to_do(path: Path) -> None:
    path.write_text("x")
    with pytest.raises(DeployError, match="no number"):
        Reread("server.x", [str(path)], number)
    path.write_bytes(b"1" * (MAX_FILE_BYTES + 1))
    with pytest.raises(DeployError, match=rf"server.x: {path} has more than"):
        Reread("server.x", [str(path)], number)
    with pytest.raises(DeployError, match=f"server.x: {path.parent} cannot be read: Is a directory"):
        Reread("server.x", [str(path.parent)], number)
