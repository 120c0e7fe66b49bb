"""Profiles, files, environment and `--set`."""

from pathlib import Path

import pytest

from talkwire_pipeline.deploy import load
from talkwire_pipeline.deploy.files import profiles
from talkwire_pipeline.errors import DeployError


def test_every_shipped_profile_loads() -> None:
    assert "demo" in profiles()
    for name in profiles():
        assert load(name, environment={}).profile == name


def test_a_file_is_a_deployment_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("stages: {talker: {max_num_seqs: 3}}\nconnectors: {codes: {geometry: v2}}\n")
    deploy = load(str(path), environment={})
    assert deploy.stages.talker.max_num_seqs == 3
    assert (deploy.geometry.initial, deploy.geometry.left, deploy.geometry.holdback) == (8, 8, 0)


def test_set_goes_over_environment_over_profile() -> None:
    environment = {"TALKWIRE_TALKER__MAX_NUM_SEQS": "5", "TALKWIRE_SERVER__DRAIN_TIMEOUT_S": "3", "TALKWIRE_HOME": "x"}
    deploy = load("demo", overrides=["stages.talker.max_num_seqs=6"], environment=environment)
    assert deploy.stages.talker.max_num_seqs == 6
    assert deploy.server.drain_timeout_s == 3


@pytest.mark.parametrize(("text", "value"), [("off", "off"), ("anchor", "anchor")])
def test_off_is_a_word(text: str, value: str, tmp_path: Path) -> None:
    assert load("demo", overrides=[f"text.continuity={text}"], environment={}).text.continuity == value
    path = tmp_path / "mine.yaml"
    path.write_text(f"text: {{continuity: {text}}}\n")
    assert load(str(path), environment={}).text.continuity == value


def test_numbers_may_be_laid_over_a_preset() -> None:
    geometry = load("demo", overrides=["connectors.codes.codec_chunk_frames=12"], environment={}).geometry
    assert (geometry.preset, geometry.steady, geometry.holdback) == ("exact-fast", 12, 10)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("talker.max_num_seqs=0", "max_num_seqs"),
        ("talker.max_num_seq=2", "max_num_seq"),
        ("talker.model_runner=v3", "model_runner"),
        ("connectors.codes.codec_right_holdback_frames=1000", "holdback"),
        ("sampling.top_p=0", "top_p"),
        ("sampling.temperature=.nan", "temperature"),
        ("talker.max_num_seqs", "key=value"),
        ("profile.name=x", "profile"),
    ],
)
def test_what_cannot_be_says_where(override: str, words: str) -> None:
    with pytest.raises(DeployError, match=words):
        load("demo", overrides=[override], environment={})


def test_what_was_laid_over_the_profile_is_named_too() -> None:
    with pytest.raises(DeployError, match=r"^demo \+ TALKWIRE_TALKER__MAX_NUM_SQS \+ --set text.idle_flush_s=1: "):
        load("demo", overrides=["text.idle_flush_s=1"], environment={"TALKWIRE_TALKER__MAX_NUM_SQS": "4"})


def test_an_unknown_profile_names_the_known() -> None:
    with pytest.raises(DeployError, match="demo"):
        load("demi", environment={})


@pytest.mark.parametrize("text", ["- a\n- b\n", "a: [1\n", "just words"])
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(DeployError, match=r"bad\.yaml"):
        load(str(path), environment={})
