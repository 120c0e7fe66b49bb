"""Records what a server with the demo voice shows under a load that grows: `python -m tools.dashboards.record FILE`."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import time
import urllib.request
from pathlib import Path

from talkwire import SpeechClient
from talkwire.bench import run
from tools.dashboards.scrape import lines, save
from tools.server import serving

SCRAPE_S = 1.0
"""Between two scrapes."""
LOADS = {1: 24, 2: 48, 4: 96, 8: 120, 12: 120}
"""Streams at the same time, and utterances of each load."""
_PAGE = re.compile(r"metrics on (\S+:\d+)")


class Recorder(threading.Thread):
    """Scrapes until `stop`.

    Attributes:
        samples: lines of OpenMetrics text.
    """

    def __init__(self, url: str) -> None:
        super().__init__(name="recorder", daemon=True)
        self.samples: list[str] = []
        self._url = url
        self._stopped = threading.Event()

    def run(self) -> None:
        """The thread."""
        while not self._stopped.wait(SCRAPE_S):
            with urllib.request.urlopen(self._url, timeout=10) as response:
                page = response.read().decode()
            self.samples.extend(lines(page, time.time()))

    def stop(self) -> None:
        """Ends it after the scrape that is under way."""
        self._stopped.set()
        self.join()


async def speak(target: str) -> None:
    """The loads, one after the other; one utterance is aborted after each."""
    async with SpeechClient(target) as client:
        for streams, utterances in LOADS.items():
            print(await run(client, streams, utterances), flush=True)
            async with client.converse() as stream:
                dropped = stream.utterance()
                await dropped.push("This sentence will not be heard to its end, and so it may be as long as it likes.")
                await dropped.abort()


def main(path: Path) -> int:
    """Records; the exit status."""
    with serving("--profile", "demo", "--metrics-port", "0", "--log-level", "warning") as server:
        recorder = Recorder(f"http://{_PAGE.findall(server.line)[0]}/metrics")
        recorder.start()
        asyncio.run(speak(server.target))
        recorder.stop()
    save(path, recorder.samples)
    print(f"{len(recorder.samples)} samples in {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
