"""A base of modules whose codes one tensor [K, d] holds or makes."""

import contextlib
from typing import Any, ContextManager, Mapping, Optional, Union

import torch
from torch import Tensor

from nsvq.quantizers._arguments import check_count
from nsvq.quantizers._layout import IMAGES, Quantizer, at_least_fp32, projections


def without_autocast(x: Tensor) -> ContextManager[Any]:
    """A context in which products of tensors on x's device keep their precision."""
    if torch.is_autocast_enabled(x.device.type):
        return torch.autocast(x.device.type, enabled=False)
    return contextlib.nullcontext()


class SingleCodebook(Quantizer):
    """Members define `_codes` and `_fit`. Heads share the codebook."""

    def __init__(self, dim: int, codebook_size: int, codebook_dim: Optional[int] = None, heads: int = 1,
                 channels_first: bool = False, accept_image_fmap: bool = False) -> None:
        owner = type(self).__name__
        for name, value in (("dim", dim), ("codebook_size", codebook_size), ("heads", heads)):
            check_count(owner, name, value)
        super().__init__(dim, channels_first or accept_image_fmap, IMAGES if accept_image_fmap else None)
        if codebook_dim is None and dim % heads:
            raise ValueError(f"{owner}: dim is {dim}, which {heads} heads do not divide; set codebook_dim")
        self.codebook_size, self.heads = codebook_size, heads
        self.codebook_dim = dim // heads if codebook_dim is None else check_count(owner, "codebook_dim", codebook_dim)
        self.project_in, self.project_out = projections(dim, self.codebook_dim * heads)
        self._start_counting(codebook_size)

    def _codes(self) -> Tensor:
        """The codes [K, d] with gradients, at least fp32."""
        raise NotImplementedError

    def _fit(self, rows: Tensor, codes: Tensor, counted: Optional[Tensor]) -> tuple[Tensor, Tensor, Tensor, Mapping[str, Tensor]]:
        """For rows [N, d], of which `counted` [N] count: codes [N, d] with gradients, indices [N], the loss and its terms."""
        raise NotImplementedError

    def forward(self, x: Tensor, mask: Optional[Tensor] = None, return_loss_breakdown: bool = False
                ) -> Union[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor, Mapping[str, Tensor]]]:
        """x [..., dim] ([B, dim, ...] with channels first) to quantized latents like x, indices [...] int64 and the loss.

        Several heads give indices [..., heads]. mask: booleans [...]; latents outside it get index -1 and zeros, and count
        nowhere. return_loss_breakdown adds a dict of the unweighted terms.
        """
        last = self._channels_last(x)
        mask = self._mask_of(last, mask)
        if mask is not None:
            last = torch.where(mask.unsqueeze(-1), last, 0)  # padding may hold anything
        rows = at_least_fp32(self.project_in(last)).reshape(-1, self.codebook_dim)
        counted = None if mask is None else mask.reshape(-1).repeat_interleave(self.heads)
        with without_autocast(x):
            codes = self._codes()
            if codes.dtype is not rows.dtype:
                wide = torch.promote_types(codes.dtype, rows.dtype)
                codes, rows = codes.to(wide), rows.to(wide)
            quantized, indices, loss, terms = self._fit(rows, codes, counted)
        if self.training:
            known = indices if counted is None else indices.masked_fill(~counted, self.codebook_size)
            self._counts.add_(torch.ops.nsvq.code_usage(known, self.codebook_size + (mask is not None))[:self.codebook_size])
        quantized = self.project_out(quantized.reshape(*last.shape[:-1], self.heads * self.codebook_dim).to(x.dtype))
        indices = indices.view(last.shape[:-1] if self.heads == 1 else (*last.shape[:-1], self.heads))
        if mask is not None:
            quantized = torch.where(mask.unsqueeze(-1), quantized, 0)
            indices = indices.masked_fill(~(mask if self.heads == 1 else mask.unsqueeze(-1)), -1)
        quantized = self._channels_back(quantized)
        return (quantized, indices, loss, terms) if return_loss_breakdown else (quantized, indices, loss)

    def get_codes_from_indices(self, indices: Tensor) -> Tensor:
        """Codes [..., heads * codebook_dim] of indices [...] (several heads: [..., heads]), zeros for -1.

        With channels first the channels become dimension 1.
        """
        with without_autocast(indices):
            codes = self._codes()[indices.clamp_min(0)].masked_fill((indices < 0).unsqueeze(-1), 0)
        return self._channels_back(codes.flatten(-2) if self.heads > 1 else codes)

    def get_output_from_indices(self, indices: Tensor) -> Tensor:
        """Quantized latents, in the layout of x, of indices that forward gave."""
        codes = self.get_codes_from_indices(indices)
        if isinstance(self.project_out, torch.nn.Identity):
            return codes
        output = self.project_out(codes.movedim(1, -1) if self._moves(codes.dim()) else codes)
        known = indices >= 0 if self.heads == 1 else (indices >= 0).all(-1)
        return self._channels_back(output.masked_fill(~known.unsqueeze(-1), 0))
