"""The command line as a process of its own, against a service on a real socket."""

import asyncio
import json
import os
import signal
import sys
import wave
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from support.fake_speech import ENDLESS_BYTES, WORD_SAMPLES, FakeSpeech, serve
from support.observed import until_equal

DEVICE = Path(__file__).parents[1] / "support" / "fake_device"
NO_DEVICE = DEVICE.parent / "no_device"


class Ran(NamedTuple):
    status: int
    out: str
    err: str


async def start(*arguments: str, **environment: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "talkwire.cli", *arguments)
    return await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **environment}
    )


async def talkwire(*arguments: str, stdin: bytes = b"", **environment: str) -> Ran:
    process = await start(*arguments, **environment)
    out, err = await process.communicate(stdin)
    assert process.returncode is not None
    return Ran(process.returncode, out.decode(errors="replace"), err.decode())


def words(path: Path) -> int:
    """Those in a WAV file; 0 if there is none yet."""
    try:
        with wave.open(str(path)) as file:
            return file.getnframes() // WORD_SAMPLES
    except (FileNotFoundError, EOFError, wave.Error):
        return 0


@pytest.fixture
def service() -> FakeSpeech:
    return FakeSpeech()


@pytest.fixture
async def target(service: FakeSpeech) -> AsyncIterator[str]:
    async with serve(service) as target:
        yield target


async def test_say_writes_a_wav_file(target: str, tmp_path: Path, service: FakeSpeech) -> None:
    output = tmp_path / "new" / "hello.wav"
    ran = await talkwire("say", "hello there", "-o", str(output), "--target", target, "--seed", "7")
    assert ran.status == 0, ran.err
    assert words(output) == 2
    assert ran.out.splitlines()[1].split()[:2] == [str(output), "0.02"]
    assert service.requests[0].start.sampling.seed == 7


@pytest.mark.parametrize(
    ("arguments", "stdin", "pieces"),
    [
        (("one two three", "--stream", "--words-per-s", "1000"), b"", ["one ", "two ", "three"]),
        (("-",), "Grüße".encode(), ["Grüße"]),
        (("-",), b"all at once", ["all at once"]),
    ],
)
async def test_say_takes_text_as_it_comes(
    arguments: tuple[str, ...], stdin: bytes, pieces: list[str], target: str, tmp_path: Path, service: FakeSpeech
) -> None:
    output = tmp_path / "out.wav"
    ran = await talkwire("say", *arguments, "-o", str(output), "--target", target, stdin=stdin)
    assert ran.status == 0, ran.err
    assert [request.text.text for request in service.requests if request.HasField("text")] == pieces
    assert words(output) == len("".join(pieces).split())


async def test_say_speaks_what_is_typed_as_it_is_typed(target: str, tmp_path: Path, service: FakeSpeech) -> None:
    output = tmp_path / "typed.wav"
    process = await start("say", "-", "-o", str(output), "--target", target)
    assert process.stdin is not None
    for piece, text in ((b"one ", "one "), (b"t\xc3", "one t"), (b"\xbc b", "one t\u00fc b")):
        process.stdin.write(piece)
        await service.until(partial(_is, service, text))
    process.stdin.close()
    assert await process.wait() == 0
    assert words(output) == 3


def _is(service: FakeSpeech, text: str) -> bool:
    return service.text() == text


async def test_interrupted_it_drops_the_utterance_and_leaves_a_file_that_plays(
    target: str, tmp_path: Path, service: FakeSpeech
) -> None:
    output = tmp_path / "cut.wav"
    process = await start("say", "-", "-o", str(output), "--voice", "endless", "--target", target)
    assert process.stdin is not None
    process.stdin.write(b"more")
    await until_equal(lambda: words(output), ENDLESS_BYTES // 2 // WORD_SAMPLES)
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert (process.returncode, err) == (130, b"")
    assert service.requests[-1].HasField("abort")


async def test_samples_go_to_a_pipe(target: str) -> None:
    ran = await talkwire("say", "hello there", "-o", "-", "--target", target)
    assert ran.out == "\1\0" * 2 * WORD_SAMPLES
    assert "0.02" in ran.err


async def test_it_plays(target: str, tmp_path: Path, service: FakeSpeech) -> None:
    device = {"PYTHONPATH": str(DEVICE), "FAKE_DEVICE": str(tmp_path / "heard")}
    ran = await talkwire("say", "hello there", "--play", "--target", target, **device)
    assert ran.status == 0, ran.err
    assert (tmp_path / "heard").read_bytes() == b"\1\0" * 2 * WORD_SAMPLES + b"stopped"
    assert not (tmp_path / "speech.wav").exists()


async def test_playing_interrupted_says_how_much_was_heard(target: str, tmp_path: Path, service: FakeSpeech) -> None:
    heard = tmp_path / "heard"
    device = {"PYTHONPATH": str(DEVICE), "FAKE_DEVICE": str(heard)}
    process = await start("say", "-", "--play", "--voice", "endless", "--target", target, **device)
    assert process.stdin is not None
    process.stdin.write(b"more")
    await until_equal(lambda: heard.exists() and heard.stat().st_size, ENDLESS_BYTES)
    process.send_signal(signal.SIGINT)
    await process.communicate()
    assert service.requests[-1].abort.played_samples == ENDLESS_BYTES // 2 - 2400
    assert heard.read_bytes().endswith(b"aborted")


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        ((), {"PYTHONPATH": str(NO_DEVICE)}, "pip install 'talkwire[play]'"),
        (("--sample-rate-hz", "44100"), {"PYTHONPATH": str(DEVICE)}, "Invalid sample rate; write a file with -o"),
        (("--file", "x"), {}, "--play: plays one text"),
    ],
)
async def test_what_cannot_be_played_says_why(
    arguments: tuple[str, ...], environment: dict[str, str], words: str, target: str
) -> None:
    text = () if "--file" in arguments else ("hello",)
    ran = await talkwire("say", *text, "--play", *arguments, "--target", target, **environment)
    assert ran.status != 0
    assert words in ran.err
    assert len(ran.err.splitlines()) == 1


async def test_say_speaks_the_lines_of_a_file(target: str, tmp_path: Path) -> None:
    lines = tmp_path / "prompts.txt"
    lines.write_text("one\n\n  one two  \none two three\n")
    ran = await talkwire("say", "--file", str(lines), "--out", str(tmp_path / "out"), "--target", target)
    assert ran.status == 0, ran.err
    assert [words(tmp_path / "out" / f"00{number}.wav") for number in (1, 2, 3)] == [1, 2, 3]
    assert len(ran.out.splitlines()) == 4


async def test_a_refused_text_leaves_the_file_that_was_there(target: str, tmp_path: Path) -> None:
    output, fresh = tmp_path / "kept.wav", tmp_path / "fresh.wav"
    output.write_bytes(b"something else")
    for path in (output, fresh):
        assert (await talkwire("say", "hello", "--voice", "missing", "-o", str(path), "--target", target)).status == 1
    assert output.read_bytes() == b"something else"
    assert not fresh.exists()


async def test_say_goes_on_past_a_line_that_fails(target: str, tmp_path: Path) -> None:
    lines = tmp_path / "prompts.txt"
    lines.write_text("one\ntwo\n")
    ran = await talkwire("say", "--file", str(lines), "--out", str(tmp_path), "--voice", "busy", "--target", target)
    assert ran.status == 1
    assert ran.out.count("RESOURCE_EXHAUSTED") == 2
    assert "2 of 2 lines failed" in ran.err
    assert "the queue is full (try again in 1.5 s)" in ran.err


async def test_info_and_health(target: str) -> None:
    info, whole, health = await asyncio.gather(
        talkwire("info", "--target", target),
        talkwire("info", "--json", "--target", target),
        talkwire("health", "--target", target),
    )
    assert "server_version: 9.9" in info.out
    assert "deploy_json" not in info.out
    assert "library_versions:\n  a: 1\n  b: 2\n" in info.out
    assert "audio_formats:\n  encoding AUDIO_ENCODING_WAV, sample_rate_hz 24000\n" in info.out
    assert json.loads(whole.out)["model"]["name"] == "fake"
    assert (health.status, health.out) == (0, "SERVING\n")


async def test_a_reader_who_has_had_enough_is_no_fault(target: str) -> None:
    commands = (("info", "--json"), ("say", "hello", "-o", "-"))
    for command in commands:
        into, out = os.pipe()
        os.close(into)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "talkwire.cli", *command, "--target", target),
            stdout=out,
            stderr=asyncio.subprocess.PIPE,
        )
        os.close(out)
        _, err = await process.communicate()
        assert (process.returncode, err) == (1, b"")


async def test_bench_prints_json(target: str) -> None:
    ran = await talkwire("bench", "--streams", "1,3", "--utterances", "5", "--json", "--target", target)
    assert ran.status == 0, ran.err
    loads = json.loads(ran.out)
    assert [(load["streams"], load["utterances"], load["failed"]) for load in loads] == [(1, 5, 0), (3, 5, 0)]
    assert all(load["first_payload_s"] == pytest.approx(WORD_SAMPLES / 24_000) for load in loads)


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("say", "hello", "--voice", "missing"), 1, "voice: there is no 'missing'"),
        (("say", "hello", "--geometry", "round"), 2, "geometry: 'round' is not known"),
        (("say",), 2, "give a text, or --file"),
        (("say", "--file", "nowhere.txt"), 1, "nowhere.txt"),
        (("say", "-o", "/dev/null/x.wav", "hello"), 1, "/dev/null"),
        (("say", "-o", "x.mp3", "hello"), 2, "-o x.mp3: a WAV file is written"),
        (("health", "--token-file", "/dev/null"), 2, "--token-file /dev/null: must hold the token"),
        (("bench", "--voice", "broken"), 3, "the stage is down"),
    ],
)
async def test_errors_are_one_line(
    arguments: tuple[str, ...], status: int, words: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = await talkwire(*arguments, "--target", target)
    assert ran.status == status
    assert words in ran.err
    assert len(ran.err.splitlines()) == 1


async def test_no_server_is_an_exit_status_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with serve(FakeSpeech()) as target:
        pass
    for command in (("health",), ("say", "hello")):
        ran = await talkwire(*command, "--target", target)
        assert ran.status == 3
        assert f"is there a server at {target}?" in ran.err
        assert "--tls" in ran.err
