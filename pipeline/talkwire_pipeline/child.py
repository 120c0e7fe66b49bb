"""One run of a stage's process, as the server holds it: start, log, end. asyncio, no torch."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping

from talkwire_pipeline.messages import StageName
from talkwire_pipeline.stage import logs
from talkwire_pipeline.stage.config import StageConfig, config_pipe

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Read by the numeric libraries when they are imported, so they must be there before the process starts."""
_READ_BYTES = 1 << 16
_MAX_LINE_BYTES = 1 << 20


class LogPipe:
    """Forwards what a stage writes, line by line.

    Attributes:
        last: the last message; what a stage that dies without a word leaves behind.
    """

    def __init__(self, fd: int, stage: StageName) -> None:
        self.last = ""
        self._fd = fd
        self._stage = stage
        self._rest = b""
        os.set_blocking(fd, False)
        asyncio.get_running_loop().add_reader(fd, self._read)

    def _read(self) -> bool:
        """Reads once. False: nothing is there now, or will be again."""
        try:
            content = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return False
        if not content:
            asyncio.get_running_loop().remove_reader(self._fd)
        lines = (self._rest + content).split(b"\n")
        self._rest = lines.pop()
        if not content or len(self._rest) > _MAX_LINE_BYTES:
            lines.append(self._rest)
            self._rest = b""
        for line in filter(bytes.strip, lines):
            self.last = logs.forward(self._stage, line)
        return bool(content)

    def close(self) -> None:
        """Forwards what the ended stage has left (a pipe holds so much and no more), and closes."""
        for _ in range(_MAX_LINE_BYTES // _READ_BYTES):
            if not self._read():
                break
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)


class Child:
    """A running stage. Made by `start`; `end` must be called, also when it has ended by itself."""

    def __init__(self, process: asyncio.subprocess.Process, log: LogPipe, life: int) -> None:
        self._process = process
        self._log = log
        self._life = life

    @classmethod
    async def start(cls, config: StageConfig, life: tuple[int, int]) -> Child:
        """Starts the interpreter. `life` is a pipe that is taken over, `config.life` its read end.

        Raises `OSError` where no process can be started.
        """
        log_reading, log_writing = os.pipe()
        with contextlib.ExitStack() as on_error, contextlib.ExitStack() as childs_ends:
            for fd in (log_reading, life[1]):
                on_error.callback(os.close, fd)
            for fd in (log_writing, life[0]):
                childs_ends.callback(os.close, fd)  # or the end of the other side would never be seen
            process = await _spawn(config, log_writing, childs_ends)
            on_error.pop_all()
        return cls(process, LogPipe(log_reading, config.stage), life[1])

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def last_words(self) -> str:
        """The last line of its log."""
        return self._log.last

    @property
    def how_it_ended(self) -> str:
        """Exit status or signal, in words; empty while it runs."""
        status = self._process.returncode
        if status is None:
            return ""
        return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"

    async def wait(self) -> None:
        """Returns when it has ended."""
        await self._process.wait()

    def kill(self) -> None:
        """SIGKILL; nothing if it has ended."""
        self._signal(signal.SIGKILL)

    async def end(self, stop_s: float, terminate_s: float) -> None:
        """Waits `stop_s` for it to end by itself, then SIGTERM, `terminate_s`, SIGKILL; frees all that was its."""
        try:
            if not await self._ends_within(stop_s):
                self._signal(signal.SIGTERM)
                await self._ends_within(terminate_s)
        finally:
            self.kill()
            await self._process.wait()
            self._log.close()
            os.close(self._life)

    async def _ends_within(self, limit_s: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), limit_s)
        return self._process.returncode is not None

    def _signal(self, number: int) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)


async def _spawn(config: StageConfig, log: int, ends: contextlib.ExitStack) -> asyncio.subprocess.Process:
    reading = config_pipe(config)
    ends.callback(os.close, reading)
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # the working directory is no place to import from
        "-m",
        "talkwire_pipeline.stage",
        config.stage,
        str(reading),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=environment(config.threads),
        pass_fds=(reading, *config.descriptors),
        process_group=0,  # a Ctrl-C in the terminal is for the server, which then ends its stages
    )


def environment(threads: int) -> Mapping[str, str]:
    """The server's own environment with the number of CPU threads set."""
    return {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))}
