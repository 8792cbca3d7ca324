"""How often each code was chosen."""

from typing import NamedTuple, Optional

import torch
from torch import Tensor, nn


class Usage(NamedTuple):
    """Usage of a codebook."""

    used: float  # share of the codes that were chosen at least once
    perplexity: float  # exp of the entropy of the shares: the number of codes that equal shares would have
    counts: Tensor  # [K] int64; [heads, K] with a codebook per head


class UsageMeter(nn.Module):
    """A base of modules that count their codes in training. The counts are a buffer that no checkpoint holds."""

    def _start_counting(self, *shape: int) -> None:
        self.register_buffer("_counts", torch.zeros(*shape, dtype=torch.int64), persistent=False)

    def usage(self, indices: Optional[Tensor] = None) -> Usage:
        """Usage of the codes: of training on this rank since `reset_usage`, or that of `indices`.

        indices: int64 of any shape, [..., heads] with a codebook per head; -1 is left out. This waits for the device.
        """
        counts = self._counts if indices is None else self._count(indices)
        shares = counts.double() / counts.sum(-1, keepdim=True).clamp_min(1)
        entropy = torch.special.entr(shares).sum(-1)
        used = (counts > 0).double().mean()
        return Usage(used.item(), entropy.exp().mean().item(), counts.clone())

    def reset_usage(self) -> None:
        """Sets the counts to zero."""
        self._counts.zero_()

    def _count(self, indices: Tensor) -> Tensor:
        """Counts like the buffer's for indices of any shape."""
        codes = self._counts.shape[-1]
        heads = indices.unbind(-1) if self._counts.dim() > 1 else [indices]
        counts = [torch.ops.nsvq.code_usage(one[one >= 0], codes) for one in heads]
        return torch.stack(counts) if self._counts.dim() > 1 else counts[0]
