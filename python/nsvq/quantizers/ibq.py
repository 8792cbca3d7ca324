"""IBQ: every code has a gradient through the index."""

from typing import Mapping, Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from nsvq.quantizers._layout import at_least_fp32, check_finite
from nsvq.quantizers._single import SingleCodebook

_PAIRS_AT_A_TIME = 1 << 22  # of latent and code: 16 MiB in fp32, of which a handful is alive at once


class IBQ(SingleCodebook):
    """The code of the largest product with the latent, one-hot straight through the softmax of the products.

    Loss and gradients are those of docs/quantizers.md, "ibq". Products of N x K are made some rows at a time, and again in
    the backward pass. Indices come from products in fp32 (fp64 for fp64 latents).
    """

    def __init__(self, dim: int, codebook_size: int, codebook_dim: Optional[int] = None, *, beta: float = 0.25,
                 entropy: float = 0.05, entropy_temperature: float = 0.01, temperature: float = 1.0,
                 channel_last: bool = True, accept_image_fmap: bool = False) -> None:
        """beta: weight of |c_q - sg z|^2; entropy: weight of mean H(p) - H(mean p), with the softmax at
        entropy_temperature; temperature: that of the softmax which gradients pass. Codes start as N(0, 1)."""
        super().__init__(dim, codebook_size, codebook_dim, 1, not channel_last, accept_image_fmap)
        if temperature <= 0 or entropy_temperature <= 0:
            raise ValueError(f"IBQ: temperature and entropy_temperature must be positive, but they are {temperature} and "
                             f"{entropy_temperature}")
        self.beta, self.entropy = beta, entropy
        self.entropy_temperature, self.temperature = entropy_temperature, temperature
        self.weight = nn.Parameter(torch.randn(codebook_size, self.codebook_dim))

    @property
    def codebook(self) -> Tensor:
        """The codes [K, d], a parameter; assigning overwrites them."""
        return self.weight

    @codebook.setter
    def codebook(self, codes: Tensor) -> None:
        if codes.shape != self.weight.shape:
            raise ValueError(f"IBQ: codebook must be {list(self.weight.shape)}, but it is {list(codes.shape)}")
        with torch.no_grad():
            self.weight.copy_(codes)

    def _codes(self) -> Tensor:
        return at_least_fp32(self.weight)

    def _fit(self, rows: Tensor, codes: Tensor, counted: Optional[Tensor]) -> tuple[Tensor, Tensor, Tensor, Mapping[str, Tensor]]:
        check_finite("IBQ", rows)
        count = torch.ones_like(rows[:, 0]) if counted is None else counted.to(rows.dtype)
        total = count.sum().clamp_min(1)
        piece = max(1, _PAIRS_AT_A_TIME // len(codes))
        pieces = [self._piece(part, codes, weights) for part, weights in zip(rows.split(piece), count.split(piece))]
        indices, carrier = torch.cat([one[0] for one in pieces]), torch.cat([one[1] for one in pieces])
        winners = F.embedding(indices, codes)
        quantized = winners + carrier  # the carrier is zero, with the softmax's gradient

        def mean_square(difference: Tensor) -> Tensor:
            return (difference.square().sum(1) * count).sum() / (total * rows.shape[1])

        embedding, commitment = mean_square(winners - rows.detach()), mean_square(winners.detach() - rows)
        loss = mean_square(quantized - rows) + commitment + self.beta * embedding
        terms = {"commitment": commitment.detach(), "embedding": embedding.detach()}
        if self.entropy > 0 and self.training:
            mean = torch.stack([one[3] for one in pieces]).sum(0) / total
            entropy = torch.stack([one[2] for one in pieces]).sum() / total + (mean * (mean + 1e-5).log()).sum()
            loss, terms["entropy"] = loss + self.entropy * entropy, entropy.detach()
        return quantized, indices, loss, terms

    def _piece(self, rows: Tensor, codes: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """For some rows [n, d]: indices, the carrier [n, d], and sums over rows of H(p) and of p [K]."""
        if torch.is_grad_enabled() and (rows.requires_grad or codes.requires_grad):
            return checkpoint(self._products, rows, codes, count, use_reentrant=False, preserve_rng_state=False)
        return self._products(rows, codes, count)

    def _products(self, rows: Tensor, codes: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        products = rows @ codes.t()
        indices, zero = products.detach().argmax(1), rows.new_zeros(())
        if not torch.is_grad_enabled():
            return indices, torch.zeros_like(rows), zero, codes.new_zeros(len(codes))
        mean = (products / self.temperature).softmax(1) @ codes.detach()
        if not (self.entropy > 0 and self.training):
            return indices, mean - mean.detach(), zero, codes.new_zeros(len(codes))
        logs = (products / self.entropy_temperature).log_softmax(1)
        p = logs.exp() * count.unsqueeze(1)
        return indices, mean - mean.detach(), -(p * logs).sum(), p.sum(0)
