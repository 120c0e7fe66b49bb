"""`talkwire say`: one text, what is typed, or a file of lines."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

from talkwire.cli_options import client, speech_options
from talkwire.errors import InvalidArgument, TalkwireError
from talkwire.listen import Heard, listen
from talkwire.listen import say as say_text
from talkwire.options import Options
from talkwire.render import Progress, table
from talkwire.sinks import Loudspeaker, Pipe, Sink, WavFile
from talkwire.stream import Stream
from talkwire.utterance import Utterance

_HEAD = ("file", "duration s", "TTFA s", "RTF")
_STDIN_BYTES = 4096
_SUFFIXES = ("", ".wav", ".wave")


async def say(arguments: argparse.Namespace) -> None:
    """Runs the command. Raises the failure of the text, or the first one among the lines."""
    if (arguments.text is None) == (arguments.file is None):
        raise InvalidArgument("say: give a text, or --file with one text a line")
    if arguments.file is not None and arguments.play:
        raise InvalidArgument("--play: plays one text; --file writes files")
    async with client(arguments) as server, server.converse() as stream:
        if arguments.file is not None:
            await _say_lines(stream, arguments)
            return
        with _sink(arguments) as sink:
            heard = await _say_one(stream, arguments, sink)
    where = "the loudspeaker" if arguments.play else arguments.output
    print(table(_HEAD, [_row(where, heard)]), file=sys.stderr if arguments.output == "-" else sys.stdout)


def _sink(arguments: argparse.Namespace) -> Sink:
    if arguments.play:
        return Loudspeaker()
    if arguments.output == "-":
        return Pipe()
    path = Path(arguments.output)
    if path.suffix.lower() not in _SUFFIXES:
        raise InvalidArgument(f"-o {path}: a WAV file is written; name it .wav, or take the samples from `-o -`")
    return WavFile(path)


async def _say_one(stream: Stream, arguments: argparse.Namespace, sink: Sink) -> Heard:
    """Sends while it listens, as an agent does with the words of a language model. Leaving drops the utterance."""
    pieces = _pieces(arguments)
    async with stream.utterance(**speech_options(arguments)) as utterance:
        first = await anext(pieces, "")
        began_s = time.perf_counter()
        await utterance.push(first)
        sending = asyncio.create_task(_push(utterance, pieces))
        try:
            heard, _ = await asyncio.gather(listen(utterance, began_s, sink=sink), sending)
        except asyncio.CancelledError:
            await utterance.abort(sink.played_samples)
            raise
        finally:
            sending.cancel()
    return heard


def _pieces(arguments: argparse.Namespace) -> AsyncIterator[str | bytes]:
    """The text as it goes out: stdin as it is typed, word by word, or whole."""
    if arguments.text == "-":
        return _stdin()
    return _paced(arguments.text, 1 / arguments.words_per_s) if arguments.stream else _whole(arguments.text)


async def _push(utterance: Utterance, pieces: AsyncIterator[str | bytes]) -> None:
    async for piece in pieces:
        await utterance.push(piece)
    await utterance.end()


async def _whole(text: str) -> AsyncIterator[str]:
    yield text


async def _paced(text: str, gap_s: float) -> AsyncIterator[str]:
    """Words with the blanks behind them, `gap_s` apart."""
    for number, word in enumerate(re.findall(r"\s*\S+\s*", text)):
        await asyncio.sleep(gap_s if number else 0)
        yield word


async def _stdin() -> AsyncIterator[bytes]:
    """What comes on stdin, as it comes. Read by a daemon thread: nothing else can be left while it waits."""
    loop, arrived = asyncio.get_running_loop(), asyncio.Queue[bytes]()

    def pump() -> None:
        with suppress(RuntimeError):  # the loop may have ended while this waited
            while piece := os.read(sys.stdin.fileno(), _STDIN_BYTES):
                loop.call_soon_threadsafe(arrived.put_nowait, piece)
            loop.call_soon_threadsafe(arrived.put_nowait, b"")

    threading.Thread(target=pump, daemon=True, name="stdin").start()
    while piece := await arrived.get():
        yield piece


async def _say_lines(stream: Stream, arguments: argparse.Namespace) -> None:
    texts = _lines(arguments.file)
    outputs = [Path(arguments.out) / f"{number:03}.wav" for number in range(1, len(texts) + 1)]
    places, options = asyncio.Semaphore(arguments.parallel), speech_options(arguments)
    with Progress(len(texts), "speaking", sys.stderr) as progress:
        jobs = (
            _say_line(stream, text, output, places, progress, options)
            for text, output in zip(texts, outputs, strict=True)
        )
        results = await asyncio.gather(*jobs)
    print(table(_HEAD, [_row(output, result) for output, result in zip(outputs, results, strict=True)]))
    _raise_failures(results)


def _lines(path: str) -> list[str]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"--file {path}: not UTF-8 at byte {error.start}") from None
    texts = [line.strip() for line in lines if line.strip()]
    if not texts:
        raise InvalidArgument(f"--file {path}: no text in it")
    return texts


async def _say_line(
    stream: Stream, text: str, output: Path, places: asyncio.Semaphore, progress: Progress, options: Options
) -> Heard | TalkwireError:
    """One line: its file is written as soon as it is spoken. A failure is returned: the other lines go on."""
    async with places:
        try:
            heard = await say_text(stream, text, **options)
        except TalkwireError as error:
            return error
        finally:
            progress.advance()
    _save(heard, output)
    return heard


def _raise_failures(results: Sequence[Heard | TalkwireError]) -> None:
    failures = [result for result in results if isinstance(result, TalkwireError)]
    if failures:
        print(f"talkwire: {len(failures)} of {len(results)} lines failed, the first one so:", file=sys.stderr)
        raise failures[0]


def _save(heard: Heard, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    heard.speech.save(path)


def _row(where: object, heard: Heard | TalkwireError) -> tuple[str, ...]:
    if isinstance(heard, TalkwireError):
        return (str(where), "-", "-", heard.code.name)
    return (str(where), f"{heard.speech.duration_s:.2f}", f"{heard.ttfa_s:.3f}", f"{heard.real_time_factor:.3f}")
