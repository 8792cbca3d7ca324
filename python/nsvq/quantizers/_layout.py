"""What the modules share: shapes of latents, masks, and the projections around a codebook."""

from typing import Optional

import torch
from torch import Tensor, nn

from nsvq.quantizers._usage import UsageMeter

IMAGES, VOLUMES = 4, 5  # dimensions of [B, dim, H, W] and [B, dim, D, H, W]


class Quantizer(UsageMeter):
    """A base of modules that quantize latents [..., dim], or [B, dim, ...] with channels first."""

    def __init__(self, dim: int, channels_first: Optional[bool] = False, dimensions: Optional[int] = None) -> None:
        """channels_first None: from 4 dimensions on; dimensions: how many x must have, None: at least 2."""
        super().__init__()
        self.dim = dim
        self._channels_first, self._dimensions = channels_first, dimensions

    def _channels_last(self, x: Tensor) -> Tensor:
        """x as [..., dim]."""
        dimensions = x.dim()
        if dimensions != self._dimensions if self._dimensions else dimensions < 2:
            raise ValueError(f"{type(self).__name__}: x must be {self._shape_text()}, but it is {list(x.shape)}")
        if self._moves(dimensions):
            x = x.movedim(1, -1)
        if x.shape[-1] != self.dim or not x.is_floating_point():
            raise ValueError(f"{type(self).__name__}: x must be {self._shape_text()} of floating point, but it has "
                             f"{x.shape[-1]} channels of {x.dtype}")
        return x

    def _channels_back(self, quantized: Tensor, leading: int = 0) -> Tensor:
        """[..., dim] in the layout of the input, after `leading` further dimensions."""
        return quantized.movedim(-1, 1 + leading) if self._moves(quantized.dim() - leading) else quantized

    def _moves(self, dimensions: int) -> bool:
        """Whether dimension 1 of an input with so many is that of its channels."""
        return dimensions > 3 if self._channels_first is None else self._channels_first and dimensions > 2

    def _shape_text(self) -> str:
        if self._dimensions:
            return f"[B, {self.dim}, {'H, W' if self._dimensions == IMAGES else 'D, H, W'}]"
        if self._channels_first is None:
            return f"[B, N, {self.dim}] or [B, {self.dim}, H, W]"
        return f"[B, {self.dim}, ...]" if self._channels_first else f"[..., {self.dim}]"

    def _mask_of(self, x: Tensor, mask: Optional[Tensor], lens: Optional[Tensor] = None) -> Optional[Tensor]:
        """Which latents of x [..., dim] count: booleans [...], or None if all do."""
        if mask is None and lens is None:
            return None
        owner = type(self).__name__
        if lens is not None:
            if mask is not None:
                raise ValueError(f"{owner}: give mask or lens, not both")
            if x.dim() != 3:
                raise ValueError(f"{owner}: lens needs x of [B, N, {self.dim}], but it is {list(x.shape)}; give mask")
            return torch.arange(x.shape[1], device=x.device) < lens.unsqueeze(1)
        if mask.dtype is not torch.bool or mask.shape != x.shape[:-1]:
            raise ValueError(f"{owner}: mask must be booleans {list(x.shape[:-1])}, but it is {mask.dtype} {list(mask.shape)}")
        return mask


def at_least_fp32(x: Tensor) -> Tensor:
    """x in fp32, or in fp64 if it is."""
    return x if x.dtype is torch.float32 or x.dtype is torch.float64 else x.float()


def check_finite(owner: str, x: Tensor) -> None:
    """Raises on a CPU if a value of x is not finite. Not within torch.compile, which cannot branch on values."""
    if x.is_cpu and not torch.compiler.is_compiling() and not torch.isfinite(x).all():
        raise ValueError(f"{owner}: x has a value that is not finite")


def projections(dim: int, inner: int, norm: bool = False, bias: bool = True) -> tuple[nn.Module, nn.Module]:
    """Linear layers from `dim` to `inner` channels and back, nothing where these are equal; `norm`: a norm after the first."""
    if dim == inner:
        return nn.Identity(), nn.Identity()
    into: nn.Module = nn.Linear(dim, inner, bias=bias)
    if norm:
        into = nn.Sequential(into, nn.LayerNorm(inner))
    return into, nn.Linear(inner, dim, bias=bias)
