"""Profiles, files and their bases, overlays, environment and `--set`: what is laid over what, and what is refused."""

from __future__ import annotations

import random
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talkwire_pipeline.deploy import Deploy, load
from talkwire_pipeline.deploy.files import profiles
from talkwire_pipeline.errors import DeployError

Write = Any
"""Writes a deploy file: `write("mine.yaml", "stages: ...")` gives its path."""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)

    def make(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return name

    return make


def read(profile: str, *overrides: str, platform: str = "cpu", **environment: str) -> Deploy:
    return load(profile, platform=platform, overrides=overrides, environment=environment)


# ---- layers


def test_a_file_is_a_deployment(write: Write) -> None:
    deploy = read(write("mine.yaml", "stages: {talker: {max_num_seqs: 3}}\nconnectors: {codes: {geometry: v2}}\n"))
    assert deploy.stages.talker.max_num_seqs == 3
    assert (deploy.geometry.initial, deploy.geometry.left, deploy.geometry.holdback) == (8, 8, 0)


def test_each_layer_goes_over_the_one_below(write: Write) -> None:
    text = "stages: {talker: {max_num_seqs: 2, max_model_len: 2, threads: 2, niceness: 2, max_num_batched_tokens: 2}}\n"
    write("base/old.yaml", text.replace("2", "1"))
    write("base/new.yaml", "base_config: old.yaml\n" + text.replace(", max_num_batched_tokens: 2", ""))
    overlay = "platforms: {cpu: {stages: {talker: {threads: 4, niceness: 4}}}, cuda: {stages: {talker: {threads: 99}}}}"
    mine = write("mine.yaml", f"base_config: base/new.yaml\nstages: {{talker: {{max_model_len: 3}}}}\n{overlay}\n")
    talker = read(mine, "talker.niceness=6", TALKWIRE_TALKER__NICENESS="5", TALKWIRE_HOME="x").stages.talker
    assert talker.max_num_batched_tokens == 1
    assert talker.max_num_seqs == 2
    assert talker.max_model_len == 3
    assert talker.threads == 4
    assert talker.niceness == 6


def test_a_base_may_be_a_shipped_profile(write: Write) -> None:
    deploy = read(write("mine.yaml", "base_config: demo\nserver: {drain_timeout_s: 1}\n"))
    assert (deploy.model.checkpoint, deploy.server.drain_timeout_s) == ("demo", 1)
    assert deploy.profile == "mine.yaml"


def test_overlays_of_one_platform_are_merged_through_the_chain(write: Write) -> None:
    write("base.yaml", "platforms: {cpu: {stages: {talker: {threads: 2, niceness: 2}}}}\n")
    text = "base_config: base.yaml\nplatforms: {cpu: {stages: {talker: {threads: 3}, codec: {threads: 4}}}}\n"
    stages = read(write("mine.yaml", text)).stages
    assert (stages.talker.threads, stages.talker.niceness, stages.codec.threads) == (3, 2, 4)


def test_lists_replace(write: Write) -> None:
    write("base.yaml", "connectors: {codes: {ramp: [4, 8, 16]}}\n")
    mine = write("mine.yaml", "base_config: base.yaml\nconnectors: {codes: {ramp: [5]}}\n")
    assert read(mine).geometry.ramp == (5,)


def test_where_each_value_was_written_is_known(write: Write) -> None:
    write("base.yaml", "stages:\n  talker:\n    max_num_seqs: 2\n")
    mine = write("mine.yaml", "base_config: base.yaml\nconnectors:\n  codes:\n    geometry: v2\n")
    where = read(mine, "text.continuity=off", TALKWIRE_CODEC__THREADS="2").provenance
    assert where["stages.talker.max_num_seqs"] == "base.yaml:3"
    assert where["connectors.codes.codec_right_holdback_frames"] == "mine.yaml:4"
    assert where["stages.codec.threads"] == "TALKWIRE_CODEC__THREADS"
    assert where["text.continuity"] == "--set text.continuity=off"
    assert "stages.talker.threads" not in where


def test_a_list_or_mapping_can_be_set() -> None:
    deploy = read("demo", "connectors.codes.ramp=[4, 8]", "codec={threads: 2, niceness: 3}")
    assert deploy.geometry.ramp == (4, 8)
    assert (deploy.stages.codec.threads, deploy.stages.codec.niceness) == (2, 3)


@pytest.mark.parametrize("text", ["off", "anchor"])
def test_off_is_a_word(text: str, write: Write) -> None:
    assert read("demo", f"text.continuity={text}").text.continuity == text
    assert read(write("mine.yaml", f"text: {{continuity: {text}}}\n")).text.continuity == text


# ---- geometry


def test_a_preset_replaces_all_the_numbers_below_it() -> None:
    shape = read("demo", "connectors.codes.geometry=v1", TALKWIRE_CONNECTORS__CODES__CODEC_CHUNK_FRAMES="9").geometry
    assert (shape.preset, shape.steady, shape.left, shape.holdback, shape.initial) == ("v1", 25, 25, 4, 1)


def test_numbers_go_over_the_preset_beside_them_in_any_order() -> None:
    sets = ["connectors.codes.codec_chunk_frames=12", "connectors.codes.geometry=v1"]
    for order in (sets, sets[::-1]):
        shape = read("demo", *order).geometry
        assert (shape.preset, shape.steady, shape.left) == ("v1", 12, 25)


def test_chunk_sizes_keep_the_presets_name_and_seams_do_not() -> None:
    assert read("demo", "connectors.codes.codec_chunk_frames=12").geometry.preset == "exact-fast"
    other = read("demo", "connectors.codes.codec_left_context_frames=12")
    assert other.geometry.preset == other.connectors.codes.geometry == "custom"


def test_every_number_is_named_in_the_result() -> None:
    codes = read("demo").connectors.codes
    assert (codes.initial_codec_chunk_frames, codes.codec_chunk_frames, codes.ramp) == (4, 25, "adaptive")


@pytest.mark.parametrize(
    ("numbers", "error"),
    [
        ("geometry: v2", "3 to 4 dB"),
        ("geometry: v1", "about 38 dB"),
        ("codec_left_context_frames: 8", "about 83 dB"),
        ("initial_codec_right_holdback_frames: 0", "3 to 4 dB"),
    ],
)
def test_a_geometry_that_is_not_seam_exact_warns_once(numbers: str, error: str, write: Write) -> None:
    (warning,) = read(write("mine.yaml", f"connectors: {{codes: {{{numbers}}}}}\n")).warnings
    assert "is not seam-exact" in warning
    assert error in warning


@pytest.mark.parametrize("name", ["exact", "exact-fast"])
def test_a_seam_exact_one_does_not(name: str, write: Write) -> None:
    assert read(write("mine.yaml", f"connectors: {{codes: {{geometry: {name}}}}}\n")).warnings == ()


def test_a_platforms_geometry_wins_over_a_changed_one_and_says_so_once(write: Write) -> None:
    mine = write("mine.yaml", "base_config: higgs-v3\nconnectors:\n  codes:\n    geometry: v2\n")
    deploy = read(mine, platform="rocm")
    assert (deploy.geometry.preset, deploy.geometry.holdback) == ("v1", 4)
    hidden = [warning for warning in deploy.warnings if "is not used" in warning]
    assert len(hidden) == 1
    assert hidden[0].startswith("mine.yaml:4: connectors.codes.geometry: v2 is not used on rocm, where profiles/higgs")
    assert hidden[0].endswith("says v1: put it under platforms.rocm to change it there")
    assert not any("is not used" in warning for warning in read(mine, platform="cuda").warnings)


def test_what_the_overlay_was_written_over_is_no_surprise(write: Write) -> None:
    text = "stages: {talker: {threads: 1}}\nplatforms: {cpu: {stages: {talker: {threads: 2}}}}\n"
    assert read(write("mine.yaml", text)).warnings == ()


# ---- what is refused


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("talker.max_num_seqs=0", "stages.talker.max_num_seqs: 0: Expected int >= 1"),
        ("talker.max_num_seqs=many", "'many': Expected int"),
        ("talker.max_num_seqs=true", "True: Expected int"),
        ("talker.max_num_seqs=null", "null clears nothing"),
        ("talker.max_num_seqs={}", "Expected int"),
        ("talker.max_num_seq=2", "no such key; did you mean max_num_seqs?"),
        ("talker=3", "a mapping of keys belongs here, not 3"),
        ("talker=null", "a mapping of keys belongs here, not null: nothing that is inherited can be cleared"),
        ("talker.devices=gpu", "'gpu' is not known; there are auto"),
        ("talker.devices=[0]", "a CPU has no devices to choose from: auto works"),
        ("talker.model_runner=v3", "'v3' is not known; there are embedded, v1, v2"),
        ("stages.x.threads=2", "no such stage; there are talker, codec"),
        ("connectors.code.geometry=v1", "no such connector; did you mean codes?"),
        ("connectors.codes.codec_left_contxt_frames=1", "did you mean codec_left_context_frames?"),
        ("connectors.codes.codec_right_holdback_frames=1000", "codec_right_holdback_frames: 1000 is not in 0 to 100"),
        ("connectors.codes.geometry=exac", "did you mean exact?"),
        ("connectors.codes.ramp=[0]", "connectors.codes.ramp"),
        ("servers.metrics_port=1", "no such section; did you mean server?"),
        ("server.drain_timeout_s=.inf", "inf is no finite number"),
        ("server.drain_timeout_s=.nan", "nan"),
        ("sampling.top_p=0", "sampling.top_p: 0 is out of range: it must be above 0 and at most 1"),
        ("sampling.temperature=.nan", "sampling.temperature: nan is out of range"),
        ("sampling.top_k=1.5", "sampling.top_k: 1.5 is no whole number"),
        ("sampling.tempature=1", "no such sampling value; did you mean temperature?"),
        ("sampling=3", "sampling: a mapping of keys belongs here, not 3"),
        ("talker.max_num_seqs", "expected path.to.key=value"),
        ("talker.max_num_seqs=[", "not YAML"),
        ("profile.name=x", "profile: no such section"),
        ("platforms.cpu.stages.talker.threads=2", "platforms: no such section"),
        ("base_config=demo", "base_config: no such section"),
        ("=1", "no such section"),
    ],
)
def test_what_cannot_be_says_where_and_what_may_be(override: str, words: str) -> None:
    with pytest.raises(DeployError) as caught:
        read("demo", override)
    assert caught.value.message.startswith(f"--set {override}: ")
    assert words in caught.value.message


def test_all_faults_of_all_files_come_at_once(write: Write) -> None:
    write("base.yaml", "stages:\n  talker:\n    thread: 2\n")
    mine = write(
        "mine.yaml",
        "base_config: base.yaml\nmodels: {}\nplatforms:\n  gpu: {}\n  cpu:\n    stages:\n      talker: null\n",
    )
    with pytest.raises(DeployError) as caught:
        read(mine, "text.cap.letter_s=x", TALKWIRE_TALKER__MAX_NUM_SQS="4")
    assert caught.value.message.splitlines() == [
        "base.yaml:3: stages.talker.thread: no such key; did you mean threads?",
        "mine.yaml:2: models: no such section; did you mean model?",
        "mine.yaml:4: platforms.gpu: no such platform; did you mean xpu?",
        "mine.yaml:7: platforms.cpu.stages.talker: a mapping of keys belongs here, not null: nothing that is inherited "
        "can be cleared",
        "TALKWIRE_TALKER__MAX_NUM_SQS: stages.talker.max_num_sqs: no such key; did you mean max_num_seqs?",
        "--set text.cap.letter_s=x: text.cap.letter_s: 'x': Expected float, got str",
    ]


@pytest.mark.parametrize("circle", [["a"], ["a", "b"], ["a", "b", "c"]])
def test_a_circle_of_bases_is_shown(circle: list[str], write: Write) -> None:
    for name, base in zip(circle, [*circle[1:], circle[0]], strict=True):
        write(f"{name}.yaml", f"base_config: {base}.yaml\n")
    shown = " -> ".join(f"{name}.yaml" for name in [*circle, circle[0]])
    with pytest.raises(DeployError, match=rf"{circle[-1]}\.yaml:1: base_config: {shown} goes in a circle"):
        read("a.yaml")


def test_a_base_that_is_not_there_is_named_with_its_place(write: Write) -> None:
    mine = write("mine.yaml", "text: {}\nbase_config: gone.yaml\n")
    with pytest.raises(DeployError, match=r"^mine\.yaml:2: base_config: gone\.yaml: no such profile"):
        read(mine)


@pytest.mark.parametrize("name", ["demi", "demo.yml", "", "../profiles/demo", "\0.yaml", "a/b.yaml"])
def test_an_unknown_profile_names_the_known(name: str) -> None:
    with pytest.raises(DeployError, match="shipped profiles: demo, higgs-v3"):
        read(name)


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"model: {name: Gr\xfc\xdfe}\n")
    with pytest.raises(DeployError, match="not UTF-8 at byte 16"):
        read(str(tmp_path / "latin.yaml"))
    (tmp_path / "large.yaml").write_bytes(b"#" * (1 << 21))
    with pytest.raises(DeployError, match="which is no deploy file"):
        read(str(tmp_path / "large.yaml"))


# ---- whatever is written


SHIPPED = {name: (files("talkwire_pipeline.deploy") / "profiles" / f"{name}.yaml").read_text() for name in profiles()}


def mutated(text: str, dice: random.Random) -> str:
    """The text with a few pieces cut, doubled, swapped or replaced by what YAML and our keys are made of."""
    spare = [
        "null",
        "{}",
        "[]",
        ": ",
        "\n",
        "  ",
        "- ",
        "&a",
        "*a",
        "<<: *v1",
        "'",
        "0",
        "-1",
        "1e999",
        ".nan",
        "~",
        "\t",
    ]
    for _ in range(dice.randint(1, 4)):
        words = text.split(" ")
        start = dice.randrange(len(words))
        end = min(len(words), start + dice.randint(1, 6))
        piece = words[start:end]
        change = dice.choice(["cut", "double", "replace", "swap"])
        if change == "cut":
            piece = []
        elif change == "double":
            piece = piece * 2
        elif change == "replace":
            piece = [dice.choice(spare)]
        else:
            piece = piece[::-1]
        text = " ".join([*words[:start], *piece, *words[end:]])
    return text


@pytest.mark.parametrize("batch", range(10))
def test_a_mutated_file_gives_a_deployment_or_a_fault_with_its_place(batch: int, write: Write) -> None:
    dice = random.Random(batch)
    for number in range(100):
        name = write(f"{number}.yaml", mutated(SHIPPED[dice.choice(list(SHIPPED))], dice))
        try:
            assert isinstance(read(name, platform=dice.choice(["cpu", "cuda", "rocm"])), Deploy)
        except DeployError as error:
            for line in error.message.splitlines():
                assert line.startswith((f"{name}:", "profiles/")), line


@given(st.text(max_size=40))
def test_no_text_of_a_set_gives_anything_else(text: str) -> None:
    with suppress(DeployError):
        read("demo", text)
