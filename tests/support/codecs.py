"""Codecs for tests: a tiny random one, the demo voice's, transformers' own, and one that only echoes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional
from transformers.models.dac.configuration_dac import DacConfig
from transformers.models.dac.modeling_dac import DacDecoder

from talkwire_demo import PATH
from talkwire_pipeline.checkpoint import CodecConfig, read_checkpoint
from talkwire_pipeline.codec.decoder import CodecDecoder
from talkwire_pipeline.codec.schedule import CallCost, work
from talkwire_pipeline.codec.windows import Shape
from talkwire_pipeline.geometry import CODEBOOKS, SAMPLES_PER_FRAME
from talkwire_pipeline.layout import codec_layout
from talkwire_pipeline.messages import Codes
from talkwire_pipeline.weights import load_codec

Samples = npt.NDArray[np.float32]
TINY = CodecConfig(codebook_dim=8, hidden=24, latent=8, decoder_hidden=64)


@cache
def tiny_tensors() -> dict[str, torch.Tensor]:
    """Random weights that keep the signal's size."""
    generator = torch.Generator().manual_seed(5)

    def draw(name: str, shape: tuple[int, ...]) -> torch.Tensor:
        if name.endswith("alpha"):
            return 0.5 + torch.rand(shape, generator=generator)
        scale = 1.0 if name.endswith("embed") else shape[-1 if len(shape) == 1 else 1] ** -0.5
        return scale * torch.randn(shape, generator=generator) * (0.25 if len(shape) == 3 else 1)

    return {name: draw(name, shape) for name, shape in codec_layout(TINY).items()}


@cache
def tiny_decoder() -> CodecDecoder:
    return CodecDecoder(tiny_tensors(), TINY)


@cache
def demo_tensors() -> tuple[dict[str, torch.Tensor], CodecConfig]:
    checkpoint = read_checkpoint(PATH)
    return load_codec(checkpoint, torch.device("cpu")), checkpoint.codec


@cache
def demo_decoder() -> CodecDecoder:
    return CodecDecoder(*demo_tensors())


@cache
def tiny_reference() -> TransformersCodec:
    return TransformersCodec(tiny_tensors(), TINY)


class TransformersCodec:
    """The decoding half as `HiggsAudioV2TokenizerModel` computes it, step by step."""

    def __init__(self, tensors: dict[str, torch.Tensor], config: CodecConfig) -> None:
        self._tensors = tensors
        self._decoder = DacDecoder(
            DacConfig(
                hidden_size=config.latent,
                decoder_hidden_size=config.decoder_hidden,
                upsampling_ratios=list(config.ratios),
            )
        ).eval()
        prefix = "acoustic_decoder."
        self._decoder.load_state_dict({n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)})
        for module in self._decoder.modules():
            if isinstance(module, torch.nn.ConvTranspose1d):
                module.output_padding = (module.stride[0] % 2,)
        self._decoder.tanh = torch.nn.Identity()

    @torch.inference_mode()
    def decode(self, frames: Codes) -> Samples:
        """[T, 8] to [T * 960]."""
        codes = torch.from_numpy(frames.astype(np.int64))
        hidden = sum(self._quantized(k, codes[:, k]) for k in range(CODEBOOKS))
        latent = functional.linear(hidden, self._tensors["fc2.weight"], self._tensors["fc2.bias"])
        samples: Samples = self._decoder(latent.T[None])[0, 0].numpy()
        return samples

    def _quantized(self, k: int, codes: torch.Tensor) -> torch.Tensor:
        name = f"quantizer.quantizers.{k}"
        entries = self._tensors[f"{name}.codebook.embed"][codes]
        return functional.linear(
            entries, self._tensors[f"{name}.project_out.weight"], self._tensors[f"{name}.project_out.bias"]
        )


@dataclass
class EchoDecoder:
    """Gives each frame's first code as all its samples, and takes virtual time for it."""

    now_ns: int = 1_000_000_000
    cost: CallCost = field(default_factory=lambda: CallCost(0.005, 0.001))
    calls: list[tuple[int, Shape]] = field(default_factory=list)
    broken: bool = False

    def clock(self) -> int:
        return self.now_ns

    def capture(self, batch: int, frames: int, start: int, stop: int) -> None: ...

    def decode(self, windows: Codes, start: int, stop: int) -> Samples:
        if self.broken:
            raise RuntimeError("out of memory")
        shape = Shape(start, stop - start, windows.shape[1] - stop)
        self.calls.append((len(windows), shape))
        self.now_ns += int(self.cost.predict(len(windows) * work(shape)) * 1e9)
        return np.repeat(windows[:, start:stop, 0], SAMPLES_PER_FRAME, axis=1).astype(np.float32)
