"""The codec's decoding half: frames of 8 codes to samples, the whole at once or only what a window needs.

RVQ lookup, `fc2` and transformers' `DacDecoder` with the two changes that `HiggsAudioV2TokenizerModel` makes: every
transposed convolution has output_padding = stride % 2, and there is no final tanh.
Shapes: B windows, T frames, S samples, C channels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from talkwire_pipeline.checkpoint import CodecConfig
from talkwire_pipeline.codec.crop import DILATIONS, Conv, Level, Plan, plan
from talkwire_pipeline.geometry import CODEBOOKS, CONTEXT_FRAMES
from talkwire_pipeline.messages import Codes

# oneDNN keeps the kernels that it made for a shape, by default those of about 20 window shapes; making them anew takes
# longer than decoding. It reads this when it makes the first one.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8192")

Samples = npt.NDArray[np.float32]
"""[S] or [B, S] float32 at 24 kHz."""


@dataclass(frozen=True, slots=True)
class _Snake:
    """x + sin(a x)^2 / a, written as x + c - c cos(2 a x) so that three passes over memory are enough."""

    twice: Tensor
    minus_c: Tensor
    c: Tensor

    def __call__(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """Same shape; `out` may be `x` itself."""
        wave = torch.mul(x, self.twice).cos_()
        return torch.addcmul(x, wave, self.minus_c, out=out).add_(self.c)


@dataclass(frozen=True, slots=True)
class _Filter:
    """A convolution's weight and bias."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor, conv: Conv, dilation: int = 1) -> Tensor:
        if conv.left or conv.right:
            x = functional.pad(x, (conv.left, conv.right))
        return functional.conv1d(x, self.weight, self.bias, dilation=dilation)

    def mix(self, x: Tensor) -> Tensor:
        """Mixes channels: a convolution with one tap."""
        return functional.conv1d(x, self.weight, self.bias)

    def upsample(self, x: Tensor, ratio: int, level: Level) -> Tensor:
        """The outputs that `level` keeps of a transposed convolution."""
        full = functional.conv_transpose1d(x, self.weight, self.bias, stride=ratio)
        return full.narrow(-1, level.first, level.size)


class _Parts:
    """Makes the parts of the decoder from tensors by their names."""

    def __init__(self, tensors: Mapping[str, Tensor], device: torch.device, dtype: torch.dtype) -> None:
        self._tensors = tensors
        self._device = device
        self._dtype = dtype

    def _place(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._device, self._dtype).contiguous()

    def filter(self, name: str) -> _Filter:
        return _Filter(self._place(self._tensors[f"{name}.weight"]), self._place(self._tensors[f"{name}.bias"]))

    def snake(self, name: str) -> _Snake:
        alpha = self._tensors[f"{name}.alpha"].float()
        c = 0.5 / (alpha + 1e-9)
        return _Snake(self._place(2 * alpha), self._place(-c), self._place(c))

    def table(self) -> Tensor:
        """[8 * codes, latent]: what each code adds to a frame's latent.

        Lookup, `project_out` and `fc2` are all linear, so that a frame's latent is one sum of 8 rows.
        """
        weight, bias = self._tensors["fc2.weight"].float(), self._tensors["fc2.bias"].float()
        rows = [functional.linear(self._entries(f"quantizer.quantizers.{k}"), weight) for k in range(CODEBOOKS)]
        rows[0] += bias
        return self._place(torch.cat(rows))

    def _entries(self, name: str) -> Tensor:
        """[codes, hidden]: a codebook, projected."""
        entries, weight, bias = (
            self._tensors[f"{name}.{part}"].float()
            for part in ("codebook.embed", "project_out.weight", "project_out.bias")
        )
        return functional.linear(entries, weight, bias)


class _Unit:
    """A residual unit: snake, dilated convolution, snake, mix of channels, plus what came in."""

    def __init__(self, parts: _Parts, name: str, dilation: int) -> None:
        self._dilation = dilation
        self._snake1, self._snake2 = parts.snake(f"{name}.snake1"), parts.snake(f"{name}.snake2")
        self._conv1, self._conv2 = parts.filter(f"{name}.conv1"), parts.filter(f"{name}.conv2")

    def __call__(self, x: Tensor, conv: Conv) -> Tensor:
        inner = self._conv1(self._snake1(x), conv, self._dilation)
        inner = self._conv2.mix(self._snake2(inner, out=inner))
        return inner.add_(x.narrow(-1, conv.skip, conv.size))


class _Block:
    """An upsampling level: snake, transposed convolution, three residual units."""

    def __init__(self, parts: _Parts, name: str, ratio: int) -> None:
        self._ratio = ratio
        self._snake = parts.snake(f"{name}.snake1")
        self._up = parts.filter(f"{name}.conv_t1")
        self._units = [_Unit(parts, f"{name}.res_unit{i + 1}", d) for i, d in enumerate(DILATIONS)]

    def __call__(self, x: Tensor, level: Level) -> Tensor:
        x = self._up.upsample(self._snake(x, out=x), self._ratio, level)
        for unit, conv in zip(self._units, level.units, strict=True):
            x = unit(x, conv)
        return x


_Call = tuple[int, Plan]
"""Windows, and their way through the decoder."""


class _Captured:
    """A call that was captured, with the tensors that it reads and writes."""

    def __init__(self, codes: Tensor, run: Callable[[Tensor], Tensor], pool: Any) -> None:
        """`pool`: memory that all captured calls share, since only one of them is replayed at a time."""
        self._codes = codes
        run(codes)  # what is prepared at a first call must not be captured
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool):
            self._samples = run(codes)

    def replay(self, codes: Tensor) -> Tensor:
        """The result for `codes`, until the next replay."""
        self._codes.copy_(codes)
        self._graph.replay()
        return self._samples


class CodecDecoder:
    """Decodes windows of frames.

    Args:
        tensors: the decoding half of the codec under transformers' names without prefix (`quantizer.quantizers.K.*`,
            `fc2.*`, `acoustic_decoder.*`), any dtype, as `talkwire_pipeline.weights.load_codec` reads them.
        config: its sizes.
        device: where it computes.
        dtype: what it computes in.

    Raises:
        KeyError: a tensor is missing.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        config: CodecConfig,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        graphs: bool = False,
    ) -> None:
        """`graphs`: calls of shapes that `capture` has met replay what was captured; CUDA alone has them."""
        self._captured: dict[_Call, _Captured] | None = {} if graphs else None
        self._pool = torch.cuda.graph_pool_handle() if graphs else None
        self.device = torch.device(device)
        self.dtype = dtype
        self._ratios = config.ratios
        parts = _Parts(tensors, self.device, dtype)
        self._table = parts.table()
        self._offsets = torch.arange(CODEBOOKS, device=self.device) * config.codes
        self._head = parts.filter("acoustic_decoder.conv1")
        self._blocks = [_Block(parts, f"acoustic_decoder.block.{i}", r) for i, r in enumerate(config.ratios)]
        self._snake = parts.snake("acoustic_decoder.snake1")
        self._tail = parts.filter("acoustic_decoder.conv2")

    @torch.inference_mode()
    def decode(self, windows: Codes, start: int, stop: int) -> Samples:
        """The samples of frames `[start, stop)` of each window, as a decode of the window alone gives them.

        Args:
            windows: [B, T, 8] int16, codes 0 to 1023.
            start: the first wanted frame; those before it are left context.
            stop: the frame after the last wanted one; the rest is right context.

        Returns:
            [B, (stop - start) * 960] float32.

        Raises:
            ValueError: the wanted frames are none, or not in the window.
        """
        way = plan(self._ratios, windows.shape[1], start, stop)
        codes = torch.from_numpy(windows[:, way.start : way.stop].astype(np.int64)).to(self.device)
        captured = self._captured.get((len(codes), way)) if self._captured else None
        decoded = self._run(codes, way) if captured is None else captured.replay(codes)
        samples: Samples = decoded.float().cpu().numpy()
        return samples

    @torch.inference_mode()
    def capture(self, batch: int, frames: int, start: int, stop: int) -> None:
        """Prepares calls of `decode` with windows [batch, frames, 8]; does nothing without graphs."""
        way = plan(self._ratios, frames, start, stop)
        if self._captured is not None and (batch, way) not in self._captured:
            codes = torch.zeros(batch, way.stop - way.start, CODEBOOKS, dtype=torch.int64, device=self.device)
            self._captured[batch, way] = _Captured(codes, lambda inputs: self._run(inputs, way), self._pool)

    def decode_whole(self, frames: Codes) -> Samples:
        """The whole decode of `frames` [T, 8]: [T * 960] float32.

        The last frame is repeated behind the end, decoded and cut off, so that speech does not end in hiss.
        """
        if len(frames) == 0:
            return np.zeros(0, np.float32)
        padded = np.concatenate([frames, np.repeat(frames[-1:], CONTEXT_FRAMES, axis=0)])
        samples: Samples = self.decode(padded[None], 0, len(frames))[0]
        return samples

    def _run(self, codes: Tensor, way: Plan) -> Tensor:
        """[B, T, 8] int64 to [B, S]."""
        latent = functional.embedding(codes + self._offsets, self._table).sum(-2)
        x = self._head(latent.transpose(1, 2), way.head)
        for block, level in zip(self._blocks, way.levels, strict=True):
            x = block(x, level)
        return self._tail(self._snake(x, out=x), way.tail).squeeze(1)
