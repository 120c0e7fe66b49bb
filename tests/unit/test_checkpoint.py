"""Where a checkpoint lies and what its JSON files say; no tensors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import talkwire_demo
from support.checkpoints import CODEC, TALKER, config_json
from talkwire_pipeline.checkpoint import CodecConfig, read_checkpoint, resolve_checkpoint
from talkwire_pipeline.errors import CheckpointError
from talkwire_pipeline.sampling import SamplingChoice


def write(folder: Path, config: dict[str, Any], generation: dict[str, Any] | None = None) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


def changed(*path: str, value: Any) -> dict[str, Any]:
    """config.json with one value changed."""
    config: dict[str, Any] = config_json()
    section = config
    for key in path[:-1]:
        section = section.setdefault(key, {})
    section[path[-1]] = value
    return config


def test_a_folder_resolves_to_itself(tmp_path: Path) -> None:
    assert resolve_checkpoint(str(tmp_path)) == tmp_path


def test_demo_resolves_to_the_package() -> None:
    assert resolve_checkpoint("demo") == talkwire_demo.PATH


def test_a_model_in_the_local_cache_resolves_to_its_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--owner--voice" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (tmp_path / "models--owner--voice" / "refs").mkdir()
    (tmp_path / "models--owner--voice" / "refs" / "main").write_text("0" * 40)
    (snapshot / "config.json").write_text(json.dumps(config_json()))
    assert resolve_checkpoint("owner/voice") == snapshot


def test_a_model_that_is_not_in_the_cache_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(CheckpointError, match="`hf download owner/voice`"):
        resolve_checkpoint("owner/voice")


def test_no_such_folder() -> None:
    with pytest.raises(CheckpointError, match=r"no folder \./voices/none"):
        resolve_checkpoint("./voices/none")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.touch()
    with pytest.raises(CheckpointError, match="is a file"):
        resolve_checkpoint(str(file))


def test_sizes_come_from_config_json(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(write(tmp_path, config_json()))
    assert checkpoint.talker == TALKER
    assert checkpoint.codec == CODEC
    assert checkpoint.name == tmp_path.name


def test_without_codec_config_the_published_sizes_hold(tmp_path: Path) -> None:
    config = config_json()
    del config["codec_config"]
    codec = read_checkpoint(write(tmp_path, config)).codec
    assert codec == CodecConfig(1024, 64, 1024, 256, 1024, (8, 5, 4, 2, 3))


@pytest.mark.parametrize(
    ("text", "theta"),
    [
        ({"rope_theta": 10000}, 1e4),
        ({"rope_theta": None}, 1e6),
        ({}, 1e6),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, 5e5),
        ({"rope_parameters": {"rope_theta": None}, "rope_theta": None}, 1e6),
    ],
)
def test_rope_theta(tmp_path: Path, text: dict[str, Any], theta: float) -> None:
    config = config_json()
    del config["text_config"]["rope_theta"]
    config["text_config"] |= text
    assert read_checkpoint(write(tmp_path, config)).talker.theta == theta


def test_an_untied_head(tmp_path: Path) -> None:
    config = changed("audio_encoder_config", "tie_word_embeddings", value=False)
    assert not read_checkpoint(write(tmp_path, config)).talker.tied


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("model_type",), "qwen3", "model_type is 'qwen3'; only 'higgs_multimodal_qwen3'"),
        (("text_config", "hidden_size"), "64", r"Expected `int`, got `str` - at `\$.text_config.hidden_size`"),
        (("text_config", "num_key_value_heads"), 0, r">= 1 - at `\$.text_config.num_key_value_heads`"),
        (("text_config", "num_key_value_heads"), 3, "4 heads of 32 over 3 key heads"),
        (("text_config", "attention_bias"), True, "text_config.attention_bias is True"),
        (("text_config", "hidden_act"), "gelu", "text_config.hidden_act is 'gelu'"),
        (("text_config", "rope_parameters"), {"rope_type": "yarn"}, "rope_type is 'yarn'"),
        (("audio_encoder_config", "num_codebooks"), 12, "audio_encoder_config.num_codebooks is 12; only 8"),
        (("codec_config", "acoustic_model_config", "upsampling_ratios"), [8, 5, 4, 2], "is 320; only 960"),
        (("codec_config", "sample_rate"), 16000, "codec_config.sample_rate is 16000"),
    ],
)
def test_what_is_not_served_is_named(tmp_path: Path, path: tuple[str, ...], value: Any, said: str) -> None:
    with pytest.raises(CheckpointError, match=said):
        read_checkpoint(write(tmp_path, changed(*path, value=value)))


def test_config_json_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json cannot be read: No such file"):
        read_checkpoint(tmp_path)


def test_config_json_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"\xff{")
    with pytest.raises(CheckpointError, match=r"config\.json: "):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("generation", "choice"),
    [
        (None, SamplingChoice()),
        ({"eos_token_id": 7}, SamplingChoice()),
        ({"temperature": 0.7, "top_k": 50, "do_sample": True}, SamplingChoice(temperature=0.7, top_k=50)),
        ({"temperature": 0.7, "do_sample": False}, SamplingChoice(temperature=0.0)),
    ],
)
def test_sampling_defaults(tmp_path: Path, generation: dict[str, Any] | None, choice: SamplingChoice) -> None:
    assert read_checkpoint(write(tmp_path, config_json(), generation)).sampling == choice


def test_sampling_defaults_out_of_range(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"generation_config\.json: top_p: 1\.5 is out of range"):
        read_checkpoint(write(tmp_path, config_json(), {"top_p": 1.5}))


def test_reading_needs_no_torch() -> None:
    code = (
        "import sys; from talkwire_pipeline.checkpoint import read_checkpoint, resolve_checkpoint; "
        "read_checkpoint(resolve_checkpoint('demo')); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
