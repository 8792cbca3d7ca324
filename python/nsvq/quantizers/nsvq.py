"""NSVQ, the paper's quantizer: nearest codes, the NS loss, and copies in place of unused codes."""

from typing import Any, Mapping, Optional

import torch
from torch import Tensor, nn

from nsvq.quantizers import _ranks
from nsvq.quantizers._arguments import check_number
from nsvq.quantizers._assign import ROTATION, STRAIGHT, assign, search
from nsvq.quantizers._layout import at_least_fp32
from nsvq.quantizers._single import SingleCodebook


class NSVQ(SingleCodebook):
    """Nearest codes, a parameter, that the NS loss lets follow latents which chose another code.

    The loss is |sg z - c_q|^2 + beta |z - sg c_q|^2 + alpha L_NS (docs/quantizers.md, "nsvq"). `replace_unused`, called
    after each epoch, makes codes that nothing chose copies of others.
    """

    def __init__(self, dim: int, codebook_size: int, codebook_dim: Optional[int] = None, heads: int = 1, *, alpha: float = 0.1,
                 tau: float = 0.35, beta: float = 0.25, rotation_trick: bool = False, cosine: bool = False,
                 channel_last: bool = True, accept_image_fmap: bool = False) -> None:
        """alpha: weight of the NS loss, 0 for none; tau: its temperature, in squared distances; beta: weight of the
        commitment; cosine: latents and codes are divided by their norms. Codes start as N(0, 1 / codebook_dim)."""
        super().__init__(dim, codebook_size, codebook_dim, heads, not channel_last, accept_image_fmap)
        self.alpha, self.beta = check_number("NSVQ", "alpha", alpha, 0), check_number("NSVQ", "beta", beta, 0)
        self.tau = check_number("NSVQ", "tau", tau, 1e-30)
        self.rotation_trick, self.cosine = rotation_trick, cosine
        self.weight = nn.Parameter(torch.randn(codebook_size, self.codebook_dim) * self.codebook_dim**-0.5)

    @property
    def codebook(self) -> Tensor:
        """The codes [K, d], a parameter; assigning overwrites them."""
        return self.weight

    @codebook.setter
    def codebook(self, codes: Tensor) -> None:
        if codes.shape != self.weight.shape:
            raise ValueError(f"NSVQ: codebook must be {list(self.weight.shape)}, but it is {list(codes.shape)}")
        with torch.no_grad():
            self.weight.copy_(codes)

    def _codes(self) -> Tensor:
        codes = at_least_fp32(self.weight)
        return nn.functional.normalize(codes, dim=-1) if self.cosine else codes

    def _fit(self, rows: Tensor, codes: Tensor, counted: Optional[Tensor]) -> tuple[Tensor, Tensor, Tensor, Mapping[str, Tensor]]:
        if self.cosine:
            rows = nn.functional.normalize(rows, dim=-1)
        if self.alpha > 0 and self.training:
            indices, distances, neighbours = search_with_neighbours(rows, codes, counted, self.tau)
        else:
            (indices, distances), neighbours = search(rows, codes), rows.new_zeros(())
        whole = 1 + self.beta
        quantized, mean = assign(rows, codes, indices, distances, counted, through=ROTATION if self.rotation_trick else STRAIGHT,
                                 to_rows=self.beta / whole, to_codes=1 / whole)
        terms = {"commitment": mean.detach(), "embedding": mean.detach(), "ns": neighbours.detach()}
        return quantized, indices, whole * mean + self.alpha * neighbours, terms

    @torch.no_grad()
    def replace_unused(self, threshold: int = 1, sigma: float = 0.001, source: str = "usage",
                       optimizer: Optional[torch.optim.Optimizer] = None) -> int:
        """Makes each code used less than `threshold` times since the last call a copy of an active one plus N(0, sigma^2).

        source: "usage" draws the code to copy in proportion to usage, "most_used" takes the most used one. optimizer: its
        moments of the replaced codes become zero. Call it after each epoch, on every rank. Returns how many were replaced.
        """
        if source not in ("usage", "most_used"):
            raise ValueError(f"NSVQ: source must be usage or most_used, but it is {source!r}")
        counts, device = self._counts.clone(), self.weight.device
        self.reset_usage()
        if _ranks.several():
            _ranks.sum_over_ranks(counts)
        counts = counts.cpu()
        unused = (counts < threshold).nonzero().flatten()
        active = counts.where(counts >= max(1, threshold), 0)
        if unused.numel() == 0 or not active.any():
            return 0
        draws = torch.rand(unused.numel(), dtype=torch.float64).to(device)
        noise = (torch.randn(unused.numel(), self.weight.shape[1]) * sigma).to(self.weight)
        if _ranks.several():
            draws, noise = _ranks.of_first_rank(draws), _ranks.of_first_rank(noise)
        totals = active.double().cumsum(0)  # inverse transform: multinomial takes at most 2^24 codes
        sources = torch.searchsorted(totals, draws.cpu() * totals[-1], right=True)
        if source == "most_used":
            sources = active.argmax().expand(unused.numel())
        unused, sources = unused.to(device), sources.to(device)
        self.weight[unused] = self.weight[sources] + noise
        moments: Mapping[str, Any] = optimizer.state.get(self.weight, {}) if optimizer else {}
        for value in moments.values():
            if isinstance(value, Tensor) and value.shape == self.weight.shape:
                value[unused] = 0
        return unused.numel()


def search_with_neighbours(rows: Tensor, codes: Tensor, counted: Optional[Tensor],
                           tau: float) -> tuple[Tensor, Tensor, Tensor]:
    """Indices [N], squared distances [N] and the NS loss of rows [N, d] that count, with its gradient for codes [K, d]."""
    rows, fixed, wide = rows.detach(), codes.detach(), rows.dtype is torch.float64
    if counted is None and not wide:
        indices, distances, loss = torch.ops.nsvq.ns_quantize(rows, codes, tau)
        return (indices if rows.is_cpu else indices.clamp_min(0)), distances.detach(), loss
    operators = torch.ops.nsvq_package if wide else torch.ops.nsvq
    indices, distances, losses, sums = operators.ns_search(rows, fixed, tau)
    count = max(1, len(rows))
    if counted is not None:  # denominators without bound: a row that does not count has weights of 0
        count, losses, sums = counted.sum().clamp_min(1), losses * counted, sums.masked_fill(~counted, float("inf"))
    share = 1 / (count * rows.shape[1])
    gradient = operators.ns_codebook_grad(rows, fixed, indices, sums, tau) * (2 * share)
    loss = losses.sum() * share + ((codes - fixed) * gradient).sum()  # what is added is zero
    return indices.clamp_min(0), distances, loss
