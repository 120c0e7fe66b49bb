"""Starts a server with the demo voice, speaks one sentence through `Converse`, shows what came, stops everything.

Run by `make demo`; writes hello.wav and hello.png.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from talkwire import SpeechClient
from talkwire.listen import Heard, say
from talkwire.render import table
from tools.server import serving
from tools.spectrogram import draw

TEXT = "Hello! I am a small voice, and I speak while you are still writing."
HEAD = ("", "TTFA s", "RTF", "duration s")


async def speak(target: str) -> Heard:
    """Speaks the sentence over a stream of its own."""
    async with SpeechClient(target) as client, client.converse() as stream:
        return await say(stream, TEXT, seed=1)


def main(folder: Path) -> int:
    """Runs the demo; the exit status."""
    print("Starting a server with the demo voice ...", flush=True)
    with serving("--profile", "demo", "--log-level", "warning") as server:
        print(f"It serves on {server.target} after {server.start_s:.1f} s. Speaking: {TEXT}", flush=True)
        heard = asyncio.run(speak(server.target))
    speech = heard.speech
    speech.save(folder / "hello.wav")
    draw(speech.audio, speech.sample_rate_hz, folder / "hello.png")
    row = ("hello.wav", f"{heard.ttfa_s:.3f}", f"{heard.real_time_factor:.3f}", f"{speech.duration_s:.2f}")
    print(table(HEAD, [row]))
    print("hello.png shows its spectrogram. The server and its stages have stopped.")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
