"""Where audio goes as it comes: a WAV file, a pipe, a loudspeaker."""

from __future__ import annotations

import asyncio
import sys
import wave
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self

from talkwire.audio import SAMPLE_BYTES, wav_writer
from talkwire.errors import FailedPrecondition

_PLAY = "talkwire[play]"


class Sink(Protocol):
    """Takes the audio of one utterance: mono, signed 16 bit. A context manager; leaving it ends the audio."""

    def begin(self, sample_rate_hz: int) -> None:
        """The rate of what comes. Before the first `write`."""

    async def write(self, data: bytes) -> None:
        """The next samples."""

    @property
    def played_samples(self) -> int | None:
        """How much has been heard; None: nobody knows."""

    def __enter__(self) -> Self:
        """Opens it. Raises `OSError` or a `TalkwireError` where that cannot be done."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends it."""


class WavFile:
    """A WAV file that can be played at any moment: its header is right after each piece. A `Sink`."""

    played_samples = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rate_hz = 0
        self._file: wave.Wave_write | None = None

    def begin(self, sample_rate_hz: int) -> None:
        """See `Sink`."""
        self._rate_hz = sample_rate_hz

    async def write(self, data: bytes) -> None:
        """See `Sink`. What was in the file goes with the first samples: there is something in its place."""
        self._file = self._file or self._create()
        self._file.writeframes(data)
        self._out.flush()

    def _create(self) -> wave.Wave_write:
        self._out: IO[bytes] = open(self._path, "wb")  # noqa: SIM115 - closed on leaving
        return wav_writer(self._out, self._rate_hz)

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._is_new = not self._path.exists()
        open(self._path, "ab").close()  # what cannot be written is known at once
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._out.close()
        elif self._is_new:
            self._path.unlink(missing_ok=True)


class Pipe:
    """Bare samples on stdout. A `Sink`."""

    played_samples = None

    def begin(self, sample_rate_hz: int) -> None:
        """See `Sink`."""

    async def write(self, data: bytes) -> None:
        """See `Sink`. Waits in a thread for a reader that is slow."""
        await asyncio.to_thread(_put, data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


def _put(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


class Loudspeaker:
    """The default output of this machine, by way of `sounddevice`. A `Sink`."""

    def __init__(self) -> None:
        self._stream: Any = None
        self._written = 0
        self._rate_hz = 0

    @property
    def played_samples(self) -> int:
        """What was handed to the device, less what it has not played yet."""
        latency_s = self._stream.latency if self._stream is not None else 0.0
        return max(0, self._written - round(latency_s * self._rate_hz))

    def begin(self, sample_rate_hz: int) -> None:
        """See `Sink`. Raises `FailedPrecondition` where there is no device."""
        self._rate_hz = sample_rate_hz
        try:
            self._stream = self._device.RawOutputStream(samplerate=sample_rate_hz, channels=1, dtype="int16")
            self._stream.start()
        except self._device.PortAudioError as error:
            raise FailedPrecondition(f"--play: no sound device takes it: {error}; write a file with -o") from error

    async def write(self, data: bytes) -> None:
        """See `Sink`. Returns when the device has room for more."""
        await asyncio.to_thread(self._play, data)

    def _play(self, data: bytes) -> None:
        """In a thread of its own: it counts what the device took also where nobody waits for it any more."""
        self._stream.write(data)
        self._written += len(data) // SAMPLE_BYTES

    def __enter__(self) -> Self:
        try:
            import sounddevice
        except ImportError as error:
            raise FailedPrecondition(f"--play: needs the extra {_PLAY}: pip install '{_PLAY}'") from error
        except OSError as error:
            raise FailedPrecondition(f"--play: {error}: install PortAudio (libportaudio2)") from error
        self._device = sounddevice
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is None:
            return
        if kind is None:
            self._stream.stop()  # plays what it has
        else:
            self._stream.abort()
        self._stream.close()
