"""docs/deploy.md names everything there is, with its default, and its example is what is printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from talkwire_pipeline.deploy import load
from talkwire_pipeline.deploy.files import profiles
from talkwire_pipeline.deploy.schema import Body, Platform
from talkwire_pipeline.deploy.show import render
from talkwire_pipeline.errors import DeployError
from talkwire_pipeline.geometry import PRESETS
from talkwire_pipeline.sampling import NEUTRAL, SamplingChoice

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text()


def keys(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Paths and defaults of all keys."""
    for name in value.__struct_fields__:
        below = getattr(value, name)
        if isinstance(below, msgspec.Struct):
            yield from keys(below, (*path, name))
        elif (*path, name) != ("sampling",):
            yield (*path, name), below


def section(path: tuple[str, ...]) -> tuple[str, str]:
    """Under which heading a key is, and by which name."""
    depth = 2 if path[0] == "stages" else 1
    return ".".join(path[:depth]), ".".join(path[depth:])


@pytest.mark.parametrize(("path", "default"), list(keys(Body())), ids=lambda value: str(value))
def test_every_key_has_a_row_with_its_default(path: tuple[str, ...], default: Any) -> None:
    heading, name = section(path)
    rows = PAGE.split(f"\n### {heading}\n")[1].split("\n#")[0].splitlines()
    (row,) = (row for row in rows if row.startswith(f"| `{name}` |"))
    cell = row.split("|")[3].strip()
    if default is None:
        assert cell.startswith("-")
    elif default in ("", {}):
        assert cell.startswith("empty")
    else:
        assert cell == f"`{str(default).lower() if isinstance(default, bool) else default}`"


@pytest.mark.parametrize(
    "word", [*get_args(Platform), *profiles(), *PRESETS, "custom", *SamplingChoice.__struct_fields__, *NEUTRAL]
)
def test_every_name_is_there(word: str) -> None:
    assert f"`{word}`" in PAGE


def test_the_example_is_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = PAGE.split("\n## An example\n")[1]
    text, shown, faults = re.findall(r"```(?:yaml)?\n(.*?)```", example, re.DOTALL)[:3]
    Path("mine.yaml").write_text(text)
    printed = render(load("mine.yaml", platform="cpu", overrides=["server.metrics_port=9464"], environment={}))
    lines = [re.sub(r" +", " ", line) for line in printed.splitlines()]
    for line in shown.splitlines():
        assert re.sub(r" +", " ", line) in lines
    Path("mine.yaml").write_text(text.replace("s: 4", "s: 0").replace("codec_chunk_frames", "codec_left_contxt_frames"))
    with pytest.raises(DeployError) as caught:
        load("mine.yaml", platform="cpu", environment={})
    assert sorted(caught.value.message.splitlines()) == sorted(faults.splitlines())
