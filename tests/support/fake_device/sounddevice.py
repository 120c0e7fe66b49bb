"""Stands for the library of the same name where it is put on the path: a device that plays into a file."""

from __future__ import annotations

import os


class PortAudioError(Exception):
    """The library's own."""


class RawOutputStream:
    """A device with a tenth of a second of latency; one that takes no 44,100 Hz."""

    latency = 0.1

    def __init__(self, *, samplerate: int, channels: int, dtype: str) -> None:
        if samplerate == 44_100:
            raise PortAudioError("Invalid sample rate")
        assert (channels, dtype) == (1, "int16")
        self._out = open(os.environ["FAKE_DEVICE"], "wb")  # noqa: SIM115

    def start(self) -> None: ...

    def write(self, data: bytes) -> None:
        self._out.write(data)
        self._out.flush()

    def stop(self) -> None:
        self._out.write(b"stopped")

    def abort(self) -> None:
        self._out.write(b"aborted")

    def close(self) -> None:
        self._out.close()
