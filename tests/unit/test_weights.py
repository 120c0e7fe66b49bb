"""Loading tensors: both codec layouts, tied and untied, one file and shards, and every way in which it can fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from support.checkpoints import TALKER, Tensors, untied_head, write_checkpoint
from talkwire_pipeline.checkpoint import Checkpoint, CodecConfig, TalkerConfig, read_checkpoint, resolve_checkpoint
from talkwire_pipeline.deploy import load
from talkwire_pipeline.errors import CheckpointError
from talkwire_pipeline.layout import AUDIO_EMBEDDING, AUDIO_HEAD, CODEC_PREFIX, codec_layout, talker_layout
from talkwire_pipeline.talker import stage
from talkwire_pipeline.weights import load_codec, load_talker

CPU = torch.device("cpu")
Q = "body.layers.1.self_attn.q_proj.weight"
FC2 = CODEC_PREFIX + "fc2.weight"
CONV_T = CODEC_PREFIX + "acoustic_decoder.block.2.conv_t1.weight"


def try_to_load(folder: Path) -> None:
    load_talker(read_checkpoint(folder), CPU)


def test_the_talker_of_one_file(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(write_checkpoint(tmp_path))
    weights = load_talker(checkpoint, CPU)
    stored = load_file(tmp_path / "model.safetensors")
    assert torch.equal(weights.audio_embedding, stored[AUDIO_EMBEDDING])
    assert weights.head is weights.audio_embedding
    queries = TALKER.heads * TALKER.head_dim
    assert torch.equal(weights.layers[1].qkv[:queries], stored[Q])
    assert torch.equal(weights.layers[0].gate_up[TALKER.ffn :], stored["body.layers.0.mlp.up_proj.weight"])
    assert weights.parameters == sum(stored[name].numel() for name in talker_layout(TALKER))


def test_shards_hold_the_same(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "three").mkdir()
    one = load_talker(read_checkpoint(write_checkpoint(tmp_path / "one")), CPU)
    three = load_talker(read_checkpoint(write_checkpoint(tmp_path / "three", shards=3)), CPU)
    assert torch.equal(one.layers[1].down, three.layers[1].down)
    assert torch.equal(one.text_embedding, three.text_embedding)


def test_both_codec_layouts_give_the_same(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "old").mkdir()
    new = load_codec(read_checkpoint(write_checkpoint(tmp_path / "new")), CPU)
    old = load_codec(read_checkpoint(write_checkpoint(tmp_path / "old", layout="original")), CPU)
    assert new.keys() == old.keys() == codec_layout(read_checkpoint(tmp_path / "new").codec).keys()
    for name, tensor in new.items():
        torch.testing.assert_close(old[name], tensor, rtol=1e-5, atol=1e-6)


def as_decoder_2(tensors: Tensors) -> None:
    """The names of the codec's own first checkpoint."""
    for name in list(tensors):
        old = name.replace("acoustic_decoder.model.", "decoder_2.model.").replace("model.fc2.", "model.fc_post2.")
        tensors[old] = tensors.pop(name)


def test_the_codecs_first_names_are_read_too(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, layout="original", edit=as_decoder_2)
    assert len(load_codec(read_checkpoint(tmp_path), CPU)) == len(codec_layout(read_checkpoint(tmp_path).codec))


def parametrized(tensors: Tensors) -> None:
    weight = tensors.pop(CONV_T).float()
    tensors[CONV_T.replace("weight", "parametrizations.weight.original0")] = 2 * weight.norm(dim=(1, 2), keepdim=True)
    tensors[CONV_T.replace("weight", "parametrizations.weight.original1")] = weight / 3


def test_a_parametrized_weight_norm_is_multiplied_out(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, edit=parametrized, dtype=torch.float32)
    tensors = load_codec(read_checkpoint(tmp_path), CPU)
    (tmp_path / "plain").mkdir()
    plain = load_codec(read_checkpoint(write_checkpoint(tmp_path / "plain", dtype=torch.float32)), CPU)
    name = CONV_T.removeprefix(CODEC_PREFIX)
    torch.testing.assert_close(tensors[name], 2 * plain[name])


def test_a_tied_head_in_the_file_is_not_used(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, edit=lambda tensors: tensors.update(untied_head()))
    weights = load_talker(read_checkpoint(tmp_path), CPU)
    assert weights.head is weights.audio_embedding


UNTIED = TalkerConfig(layers=2, width=64, heads=4, kv_heads=2, head_dim=32, ffn=96, vocabulary=96, tied=False)


def test_an_untied_head_is_used(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, talker=UNTIED, edit=lambda tensors: tensors.update(untied_head()))
    assert load_talker(read_checkpoint(tmp_path), CPU).head.eq(0.5).all()


@pytest.mark.parametrize(
    "name",
    [
        "tied.head.text_head.weight",
        CODEC_PREFIX + "semantic_model.masked_spec_embed",
        CODEC_PREFIX + "acoustic_encoder.conv1.weight",
        CODEC_PREFIX + "fc_prior.weight",
        CODEC_PREFIX + "quantizer.quantizers.3.codebook.cluster_size",
        CODEC_PREFIX + "quantizer.vq.layers.3._codebook.embed_avg",
        CODEC_PREFIX + "quantizer.vq.layers.3.project_in.bias",
    ],
)
def test_what_only_encodes_or_trains_may_be_there(tmp_path: Path, name: str) -> None:
    write_checkpoint(tmp_path, edit=lambda tensors: tensors.update({name: torch.ones(3)}))
    try_to_load(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "body.layers.2.input_layernorm.weight",
        "lm_head.weight",
        "tied.head.modality_heads.1.weight",
        CODEC_PREFIX + "acoustic_decoder.block.5.snake1.alpha",
        CODEC_PREFIX + "acoustic_decoder.model.8.bias",
        CODEC_PREFIX + "quantizer.quantizers.8.codebook.embed",
        CODEC_PREFIX + "fc3.weight",
    ],
)
@pytest.mark.parametrize("load", [load_talker, load_codec])
def test_an_unknown_key_is_named(tmp_path: Path, name: str, load: Callable[[Checkpoint, torch.device], object]) -> None:
    write_checkpoint(tmp_path, edit=lambda tensors: tensors.update({name: torch.ones(3)}))
    with pytest.raises(CheckpointError, match=f"1 unknown: {name}$"):
        load(read_checkpoint(tmp_path), CPU)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, edit=lambda tensors: tensors.pop(Q))
    with pytest.raises(CheckpointError, match=f"1 missing: {Q}$"):
        load_talker(read_checkpoint(tmp_path), CPU)


def test_each_half_asks_for_its_own_keys_only(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, edit=lambda tensors: tensors.pop(FC2))
    try_to_load(tmp_path)
    with pytest.raises(CheckpointError, match=f"1 missing: {FC2}$"):
        load_codec(read_checkpoint(tmp_path), CPU)


def test_half_a_weight_norm_is_missing(tmp_path: Path) -> None:
    half = CODEC_PREFIX + "acoustic_decoder.conv1.weight_g"
    old = CODEC_PREFIX + "acoustic_decoder.model.0.weight_g"
    write_checkpoint(tmp_path, layout="original", edit=lambda tensors: tensors.pop(old))
    with pytest.raises(CheckpointError, match=f"1 missing: {half}$"):
        load_codec(read_checkpoint(tmp_path), CPU)


def test_an_untied_head_is_missing(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, talker=UNTIED, edit=lambda tensors: tensors.pop(AUDIO_HEAD))
    with pytest.raises(CheckpointError, match=f"1 missing: {AUDIO_HEAD}$"):
        load_talker(read_checkpoint(tmp_path), CPU)


def test_another_shape_is_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, edit=lambda tensors: tensors.update({Q: torch.ones(128, 63)}))
    with pytest.raises(CheckpointError, match=rf"1 not as config.json says: {Q} is \[128, 63\] instead of \[128, 64\]"):
        load_talker(read_checkpoint(tmp_path), CPU)


def test_another_type_is_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, edit=lambda tensors: tensors.update({FC2: tensors[FC2].to(torch.int8)}))
    with pytest.raises(CheckpointError, match=f"{FC2} is of type I8, which is none of F16, BF16, F32"):
        load_codec(read_checkpoint(tmp_path), CPU)


def test_a_tensor_in_both_layouts_is_named(tmp_path: Path) -> None:
    name = CODEC_PREFIX + "quantizer.quantizers.0.codebook.embed"
    old = CODEC_PREFIX + "quantizer.vq.layers.0._codebook.embed"
    write_checkpoint(tmp_path, edit=lambda tensors: tensors.update({old: tensors[name].clone()}))
    with pytest.raises(CheckpointError, match=f"1 there twice: {name}$"):
        load_codec(read_checkpoint(tmp_path), CPU)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    def edit(tensors: Tensors) -> None:
        del tensors[Q]
        tensors["extra"] = torch.ones(1)
        tensors["body.norm.weight"] = torch.ones(65)

    write_checkpoint(tmp_path, edit=edit)
    with pytest.raises(CheckpointError, match=r"1 missing: .*1 unknown: extra; 1 not as config\.json says: body"):
        load_talker(read_checkpoint(tmp_path), CPU)


# ---- files


def test_no_safetensors_file(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"neither model\.safetensors nor model\.safetensors\.index\.json"):
        try_to_load(tmp_path)


def test_not_a_safetensors_file(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(CheckpointError, match=r"model\.safetensors is no whole safetensors file"):
        try_to_load(tmp_path)


def test_a_file_that_was_cut_short(tmp_path: Path) -> None:
    file = write_checkpoint(tmp_path) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"model\.safetensors is no whole safetensors file"):
        try_to_load(tmp_path)


def test_a_shard_is_missing(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, shards=2)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model-00002-of-00002\.safetensors is missing"):
        try_to_load(tmp_path)


def test_an_index_that_says_nothing(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, shards=2)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}}))
    with pytest.raises(CheckpointError, match=r"index\.json: .*weight_map"):
        try_to_load(tmp_path)


def test_tensors_that_the_index_leaves_out_are_found(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, shards=2)
    index = tmp_path / "model.safetensors.index.json"
    weight_map = json.loads(index.read_text())["weight_map"]
    del weight_map[Q]
    index.write_text(json.dumps({"weight_map": weight_map}))
    try_to_load(tmp_path)


def test_a_key_in_two_shards_is_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, shards=2)
    for file in tmp_path.glob("model-*.safetensors"):
        save_file({**load_file(file), Q: torch.ones(128, 64, dtype=torch.float16)}, file)
    with pytest.raises(CheckpointError, match=f"1 there twice: {Q}$"):
        try_to_load(tmp_path)


# ---- the real sizes


def test_the_full_size_talker_has_399_keys() -> None:
    full = TalkerConfig(layers=36, width=2560, heads=32, kv_heads=8, head_dim=128, ffn=9728, vocabulary=151936)
    assert len(talker_layout(full)) == 399


def test_the_codec_layout_is_transformers_dac_decoder() -> None:
    from transformers.models.dac.configuration_dac import DacConfig
    from transformers.models.dac.modeling_dac import DacDecoder

    config = CodecConfig()
    dac = DacConfig(hidden_size=256, decoder_hidden_size=1024, upsampling_ratios=[8, 5, 4, 2, 3])
    with torch.device("meta"):
        decoder = DacDecoder(dac)
    ours = {name: shape for name, shape in codec_layout(config).items() if name.startswith("acoustic_decoder.")}
    assert ours == {f"acoustic_decoder.{name}": tuple(t.shape) for name, t in decoder.state_dict().items()}


def test_the_demo_checkpoint_loads() -> None:
    checkpoint = read_checkpoint(resolve_checkpoint("demo"))
    assert load_talker(checkpoint, CPU).parameters == 9_697_856
    codec = load_codec(checkpoint, CPU)
    assert codec["acoustic_decoder.conv1.weight"].dtype == torch.float32
    assert codec["quantizer.quantizers.7.codebook.embed"].shape == (1024, 32)


def test_a_talker_that_does_not_fit_is_refused_before_its_device_is_looked_for(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, edit=lambda tensors: tensors.pop(Q))
    deploy = load("demo", platform="cuda", overrides=[f"model.checkpoint={tmp_path}", "talker.model_runner=v1"])
    with pytest.raises(CheckpointError, match=f"1 missing: {Q}$"):
        stage.load(deploy)
