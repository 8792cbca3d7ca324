"""FSQ: each channel rounded to a few levels."""

import math
from typing import Any, Optional, Sequence

import torch
from torch import Tensor

from nsvq.quantizers._arguments import check_count, refuse
from nsvq.quantizers._layout import Quantizer, at_least_fp32, check_finite, projections
from nsvq.quantizers._single import without_autocast

_MOST_CODES = 1 << 24
_REFUSED = {
    "scale": ((None,), "project the latents yourself"),
    "allowed_dtypes": ((None,), "fp64 stays, everything else is fp32"),
    "force_quantization_f32": ((True,), "levels are rounded in fp32 at least"),
    "return_indices": ((True,), "leave the second result alone"),
    "preserve_symmetry": ((False,), "take odd levels: their codes are symmetric"),
    "noise_dropout": ((0,), "add noise to x"),
    "bound_hard_clamp": ((False,), "bounds are tanh"),
    "orthogonal_rotation": ((False,), "rotate x yourself"),
}


class FSQ(Quantizer):
    """Finite scalar quantization: nothing trains but the projections, and there is no loss (docs/quantizers.md, "fsq").

    The index is sum_k (level_k + floor(L_k / 2)) prod_{m<k} L_m: the first channel is the fastest.
    """

    def __init__(self, levels: Sequence[int], dim: Optional[int] = None, num_codebooks: int = 1,
                 keep_num_codebooks_dim: Optional[bool] = None, channel_first: bool = False, projection_has_bias: bool = True,
                 **others: Any) -> None:
        """levels: of each channel of a code, 3 or more; dim: channels of x, by default num_codebooks * len(levels)."""
        refuse("FSQ", others, _REFUSED, FSQ.__init__)
        for level in levels:
            check_count("FSQ", "levels", level, 3)
        codes = math.prod(levels)
        if not levels or codes > _MOST_CODES:
            raise ValueError(f"FSQ: levels must be one or more with a product of at most {_MOST_CODES}, but they are {levels}")
        check_count("FSQ", "num_codebooks", num_codebooks)
        inner = len(levels) * num_codebooks
        super().__init__(inner if dim is None else check_count("FSQ", "dim", dim), channel_first or None)
        self.levels, self.codebook_size, self.codebook_dim, self.num_codebooks = tuple(levels), codes, len(levels), num_codebooks
        self._keeps_codebooks = num_codebooks > 1 if keep_num_codebooks_dim is None else keep_num_codebooks_dim
        if num_codebooks > 1 and not self._keeps_codebooks:
            raise ValueError("FSQ: keep_num_codebooks_dim must be True with several codebooks, whose indices it holds")
        self.project_in, self.project_out = projections(self.dim, inner, bias=projection_has_bias)
        whole = torch.tensor(levels)  # integers, which model.bfloat16() leaves alone
        self.register_buffer("_levels", whole, persistent=False)
        self.register_buffer("_strides", whole.cumprod(0) // whole, persistent=False)
        self._start_counting(codes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x [..., dim], [B, dim, H, W] and further dimensions, or with channel_first [B, dim, ...], to quantized latents
        like x and indices [...] int64; several codebooks give indices [..., num_codebooks]."""
        last = self._channels_last(x)
        rows = at_least_fp32(self.project_in(last))
        check_finite("FSQ", rows)
        codes, indices = self.quantize(rows.unflatten(-1, (self.num_codebooks, self.codebook_dim)))
        if self.training:
            self._counts.add_(torch.ops.nsvq.code_usage(indices, self.codebook_size))
        quantized = self.project_out(codes.flatten(-2).to(x.dtype))
        return self._channels_back(quantized), indices if self._keeps_codebooks else indices.squeeze(-1)

    def quantize(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """z [..., len(levels)] to codes with straight-through gradients and indices [...] int64."""
        levels = self._levels.to(z.dtype)
        width, half = (levels / 2).floor(), (levels - 1) * (1.001 / 2)  # a little more than the outermost level
        offset = 0.5 * (1 - levels.remainder(2))
        inside = (z + (offset / half).atanh()).tanh() * half - offset
        level = inside.detach().round().maximum(-width).minimum(levels - 1 - width)
        steps = (level + width).nan_to_num(0).long()  # a GPU does not stop for NaN: its level is 0
        bounded = inside / width
        return level / width + (bounded - bounded.detach()), (steps * self._strides).sum(-1)

    def codes_to_indices(self, codes: Tensor) -> Tensor:
        """Indices [...] int64 of codes [..., len(levels)]."""
        return (((codes + 1) * (self._levels // 2)).round().long() * self._strides).sum(-1)

    def get_codes_from_indices(self, indices: Tensor) -> Tensor:
        """Codes [..., len(levels)] of indices [...]; levels of an index are its digits, the first channel the fastest."""
        steps = indices.unsqueeze(-1).div(self._strides, rounding_mode="floor").remainder(self._levels)
        return (steps - self._levels // 2) / (self._levels // 2)

    def indices_to_codes(self, indices: Tensor) -> Tensor:
        """Quantized latents, in the layout of x, of indices that forward gave."""
        codes = self.get_codes_from_indices(indices)
        with without_autocast(codes):
            output = self.project_out(codes.flatten(-2) if self._keeps_codebooks else codes)
        return self._channels_back(output)

    def get_output_from_indices(self, indices: Tensor) -> Tensor:
        """indices_to_codes, by the name that the other modules have."""
        return self.indices_to_codes(indices)
