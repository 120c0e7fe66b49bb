"""Matrix products of the backbone: how a weight is stored, and what multiplies by it."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

Linear = Callable[[torch.Tensor], torch.Tensor]
"""Takes [n, inputs], gives [n, outputs] of the same dtype, in memory of its own."""


def plain_linear(weight: torch.Tensor) -> Linear:
    """`x @ weight.T`, weight [outputs, inputs] in the dtype of the activations."""
    return lambda x: F.linear(x, weight)


def packed_linear(weight: torch.Tensor) -> Linear:
    """The same for fp32 activations on a CPU, with the weight stored as fp16 in FBGEMM's order.

    Half the memory traffic, which is what a small batch costs, and nothing lost: products and sums are fp32. A row's
    result does not depend on how many rows there are.
    """
    packed = torch.ops.quantized.linear_prepack_fp16(weight.float(), None)

    def multiply(x: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.ops.quantized.linear_dynamic_fp16(x, packed)
        return product

    return multiply


def can_pack(device: torch.device) -> bool:
    """Whether this machine multiplies by fp16-stored weights."""
    return device.type == "cpu" and "fbgemm" in torch.backends.quantized.supported_engines


def is_fp16(weight: torch.Tensor) -> bool:
    """Whether every value of the weight is one of fp16's."""
    return weight.dtype == torch.float16 or torch.equal(weight.to(torch.float16).to(weight.dtype), weight)
