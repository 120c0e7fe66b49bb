"""Finds a checkpoint's tensors and checks their names and shapes from the headers alone. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
from safetensors import SafetensorError, safe_open

from talkwire_pipeline.checkpoint import Checkpoint
from talkwire_pipeline.errors import CheckpointError
from talkwire_pipeline.layout import (
    CODEC_PREFIX,
    Layout,
    Shape,
    canonical_codec_name,
    codec_layout,
    is_unused,
    talker_layout,
    weight_norm_parts,
)

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_DTYPES = ("F16", "BF16", "F32")


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a file.

    Attributes:
        name: its key.
        file: the safetensors file.
        shape: its shape.
        dtype: safetensors' name of its type.
    """

    name: str
    file: Path
    shape: Shape
    dtype: str


Located = dict[str, tuple[StoredTensor, ...]]
"""What each tensor of a layout is made of: itself, or the length and the direction of a weight-normed one."""


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


def locate(checkpoint: Checkpoint, half: Literal["talker", "codec"]) -> Located:
    """Where the tensors of one half lie, by the names of its layout.

    Every key of the checkpoint must be known, also those of the other half; those of this half must all be there,
    in the shapes that config.json gives.

    Raises:
        CheckpointError: names every tensor that is missing, unknown, there twice, or of another shape or type.
    """
    talker = talker_layout(checkpoint.talker)
    codec = {CODEC_PREFIX + name: shape for name, shape in codec_layout(checkpoint.codec).items()}
    stored, twice = _by_canonical_name(_stored_tensors(checkpoint.folder), len(checkpoint.codec.ratios))
    located = {name: _sources(name, stored) for name in talker | codec}
    layout = talker if half == "talker" else codec
    known = {source for sources in located.values() for source in sources}
    _report(
        checkpoint.folder,
        {
            "missing": [name for layout_name in layout for name in located[layout_name] if name not in stored],
            "unknown": [
                tensor.name
                for name, tensor in stored.items()
                if name not in known and not is_unused(name, checkpoint.talker.tied)
            ],
            "there twice": [name for name in twice if name in known],
            "not as config.json says": _misshapen(layout, located, stored),
        },
    )
    prefix = "" if half == "talker" else CODEC_PREFIX
    return {name.removeprefix(prefix): tuple(stored[source] for source in located[name]) for name in layout}


def _by_canonical_name(tensors: Iterable[StoredTensor], levels: int) -> tuple[dict[str, StoredTensor], list[str]]:
    """The tensors by name, the codec's by transformers' names, and which names came twice."""
    found: dict[str, StoredTensor] = {}
    twice = []
    for tensor in tensors:
        name = tensor.name
        if name.startswith(CODEC_PREFIX):
            name = CODEC_PREFIX + canonical_codec_name(name.removeprefix(CODEC_PREFIX), levels)
        if name in found:
            twice.append(name)
        found[name] = tensor
    return found, twice


def _sources(name: str, stored: Mapping[str, StoredTensor]) -> tuple[str, ...]:
    """Names that the tensor is made of; its own name if nothing of it is there."""
    parts = None if name in stored else weight_norm_parts(name, stored)
    return parts or (name,)


def _misshapen(layout: Layout, located: Mapping[str, tuple[str, ...]], stored: Mapping[str, StoredTensor]) -> list[str]:
    """Sentences on the tensors of another shape or type than the layout's."""
    wrong = []
    for name, shape in layout.items():
        length = (shape[0], *(1 for _ in shape[1:]))
        shapes = (shape,) if len(located[name]) == 1 else (length, shape)
        for source, wanted in zip(located[name], shapes, strict=True):
            tensor = stored.get(source)
            if tensor is None:
                continue
            if tensor.shape != wanted:
                wrong.append(f"{tensor.name} is {list(tensor.shape)} instead of {list(wanted)}")
            if tensor.dtype not in _DTYPES:
                wrong.append(f"{tensor.name} is of type {tensor.dtype}, which is none of {', '.join(_DTYPES)}")
    return wrong


def _report(folder: Path, problems: Mapping[str, list[str]]) -> None:
    """Raises if any list has an entry."""
    said = [f"{len(names)} {kind}: {', '.join(names)}" for kind, names in problems.items() if names]
    if said:
        raise CheckpointError(f"{folder}: tensors do not fit. " + "; ".join(said))


# ---- the files


def _stored_tensors(folder: Path) -> list[StoredTensor]:
    """All tensors of all files, from their headers."""
    return [tensor for file in _files(folder) for tensor in _header(file)]


def _files(folder: Path) -> list[Path]:
    """The safetensors files: the single one, else those that the index names.

    The index serves for nothing else: published ones leave out tensors that their files hold.
    """
    if (folder / SINGLE_FILE).exists():
        return [folder / SINGLE_FILE]
    index = folder / INDEX_FILE
    if not index.exists():
        raise CheckpointError(f"{folder}: there is neither {SINGLE_FILE} nor {INDEX_FILE}; other formats are not read")
    try:
        names = msgspec.json.decode(index.read_bytes(), type=_Index).weight_map.values()
    except (OSError, msgspec.DecodeError) as error:
        raise CheckpointError(f"{index}: {error}") from error
    return [folder / name for name in sorted(set(names))]


def _header(file: Path) -> list[StoredTensor]:
    """The tensors of one file. The library checks that the file is as long as its header says."""
    if not file.exists():
        raise CheckpointError(f"{file} is missing; {INDEX_FILE} names it")
    try:
        with safe_open(file, framework="np") as tensors:
            slices = {name: tensors.get_slice(name) for name in tensors.keys()}  # noqa: SIM118  (no mapping)
            return [
                StoredTensor(name, file, tuple(part.get_shape()), str(part.get_dtype()))
                for name, part in slices.items()
            ]
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{file} is no whole safetensors file: {error}") from error
