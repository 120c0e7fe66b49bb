"""The command line and the process, as an operator runs them."""

from __future__ import annotations

import asyncio
import io
import signal
import socket
import subprocess
import sys
import wave
from pathlib import Path

import pytest
from rich.console import Console

from talkwire_pipeline.deploy import load
from talkwire_pipeline.fakes import FakeStages
from talkwire_server.cli import main
from talkwire_server.offline import synthesize, table

SERVE = """
import asyncio, sys
from talkwire_pipeline.deploy import load
from talkwire_pipeline.fakes import FakeStages
from talkwire_server.app import serve
asyncio.run(serve(load("demo", environment={}, overrides=["server.metrics_port=0"]), host="127.0.0.1", port=0,
                  announce=lambda line: print(line, flush=True), stages=FakeStages()))
print("torch" in sys.modules, flush=True)
"""


async def test_sigterm_ends_the_process_with_0_and_it_never_imported_torch() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    port = int(line.split(",")[0].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)):
        process.send_signal(signal.SIGTERM)
        rest, _ = await process.communicate()
    assert process.returncode == 0
    assert rest.decode().split() == ["False"]


def test_a_port_in_use_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "talkwire_server.cli", "serve", "--port", str(port)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in result.stderr
    assert "Traceback" not in result.stderr


def test_config_prints_what_load_takes_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["config", "--set", "talker.max_num_seqs=3"]) == 0
    path = tmp_path / "again.yaml"
    path.write_text(capsys.readouterr().out)
    assert load(str(path), environment={}).stages.talker.max_num_seqs == 3


def test_config_shows_a_platform_with_where_each_value_came_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--profile", "higgs-v3", "--platform", "rocm"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["model_runner:", "v1", "#", "default", "of", "rocm"] in lines
    for key, value in (("chunk", 25), ("left_context", 25), ("right_holdback", 4)):
        name = f"codec_{key}_frames:"
        (line,) = (line for line in lines if line[0] == name)
        assert line[1:3] == [str(value), "#"]
        assert line[3].startswith("profiles/higgs-v3.yaml:")


def test_config_checks_and_compares(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["config", "--profile", "higgs-v3", "--platform", "xpu"]
    assert main([*arguments, "--check", "--set", "talker.model_runner=v2"]) == 2
    assert "v2 does not run on xpu: v1 does" in capsys.readouterr().err
    assert main([*arguments, "--check"]) == 0
    assert "not seam-exact" in capsys.readouterr().out
    assert main([*arguments, "--diff", "higgs-v3"]) == 0
    assert capsys.readouterr().out == ""
    assert main([*arguments, "--diff", "demo"]) == 0
    assert "stages.talker.max_num_seqs: 32 (profiles/higgs-v3.yaml:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["config", "--profile", "nowhere"], "nowhere"),
        (["config", "--set", "talker.max_num_seqs=many"], "max_num_seqs"),
        (["synthesize", "--texts", "/nowhere.txt", "--out", "out"], "/nowhere.txt"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], word: str
) -> None:
    assert main(arguments) == 2
    assert word in capsys.readouterr().err


@pytest.mark.parametrize(("data", "word"), [(b"\n  \n", "no text"), (b"Gr\xfc\xdfe", "byte 2")])
def test_a_file_without_texts_starts_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, data: bytes, word: str
) -> None:
    (tmp_path / "texts.txt").write_bytes(data)
    assert main(["synthesize", "--texts", str(tmp_path / "texts.txt"), "--out", str(tmp_path / "out")]) == 2
    assert word in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_client_alone_says_what_the_server_needs() -> None:
    code = "import sys; sys.modules['msgspec'] = None; from talkwire_server.entry import main; sys.exit(main())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert "msgspec is not installed; the extra talkwire[server]" in result.stderr


async def test_offline_speaks_every_text_and_reports_the_one_that_fails(tmp_path: Path) -> None:
    texts = ["The first one.", "...", *["And another one."] * 10]
    screen = io.StringIO()
    console = Console(file=screen, width=120)
    spoken = await synthesize(load("demo", environment={}), texts, tmp_path, console, FakeStages())
    assert [each.path.name for each in spoken] == [f"{number:04d}.wav" for number in range(1, 13)]
    assert [bool(each.fault) for each in spoken] == [False, True, *[False] * 10]
    with wave.open(str(spoken[0].path)) as file:
        assert file.getnframes() / 24_000 == pytest.approx(spoken[0].duration_s)
        assert file.getnframes() > 0
    console.print(table(spoken))
    assert "0012.wav" in screen.getvalue()
    assert "12/12" in screen.getvalue()
