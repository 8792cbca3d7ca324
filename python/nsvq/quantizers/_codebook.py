"""The codebook of VectorQuantize: codes, their running means, their start and their replacement."""

from typing import Any, Optional, Sequence

import torch
from torch import Tensor, nn

from nsvq.functional import kmeans
from nsvq.quantizers import _ranks
from nsvq.quantizers._assign import sums_of_codes, unit


class Codebook(nn.Module):
    """Codes `embed` [h, K, d] of h heads, with the names of vector-quantize-pytorch's checkpoints.

    `cluster_size` [h, K] and `embed_avg` [h, K, d] are running counts and sums of the latents of each code. `initted` is
    false until k-means has given the codes their first values.
    """

    def __init__(self, heads: int, codes: int, dim: int, *, learnable: bool, cosine: bool, kmeans_iters: int, sync_kmeans: bool,
                 decay: float, eps: float, threshold: float, sync: Optional[bool]) -> None:
        """kmeans_iters 0: the codes start at random; sync None: statistics are summed where there are several ranks."""
        super().__init__()
        self.cosine, self.decay, self.eps, self.threshold = cosine, decay, eps, threshold
        self.kmeans_iters, self.sync_kmeans, self.sync = kmeans_iters, sync_kmeans, sync
        embed = torch.zeros(heads, codes, dim)
        if not kmeans_iters:
            nn.init.kaiming_uniform_(embed)
            embed = unit(embed) if cosine else embed
        self.started = not kmeans_iters  # `initted`, known to the host
        self.register_buffer("initted", torch.tensor(self.started))
        self.register_buffer("cluster_size", torch.ones(heads, codes))
        self.register_buffer("embed_avg", embed.clone())
        if learnable:
            self.embed = nn.Parameter(embed)
        else:
            self.register_buffer("embed", embed)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        super()._load_from_state_dict(state, prefix, *rest)
        self.started = bool(self.initted)

    @property
    def synced(self) -> bool:
        return _ranks.several() and self.sync is not False

    @torch.no_grad()
    def set_codes(self, codes: Tensor) -> None:
        """Sets the codes [h, K, d], and the running means to them."""
        self.embed.copy_(unit(codes) if self.cosine else codes)
        self.embed_avg.copy_(self.embed)
        self.cluster_size.fill_(1)
        self.initted.fill_(True)
        self.started = True

    @torch.no_grad()
    def start(self, rows: Sequence[Tensor], mask: Optional[Tensor]) -> None:
        """Sets the codes to the k-means centres of each head's rows [N, d], those that the mask [N] names."""
        together = self.synced and self.sync_kmeans
        codes = [torch.ops.nsvq_modules.kmeans_start(one.detach(), mask, self.embed.shape[1], self.kmeans_iters, self.cosine,
                                                     together) for one in rows]
        embed, counts = torch.stack([one[0] for one in codes]), torch.stack([one[1] for one in codes])
        self.embed.copy_(embed)
        self.cluster_size.copy_(counts)
        self.embed_avg.copy_(embed * counts.unsqueeze(2))
        self.initted.fill_(True)
        self.started = True

    @torch.no_grad()
    def observe(self, counts: Tensor, sums: Tensor, active: Optional[Tensor] = None) -> None:
        """Adds a step's counts [h, K] and sums [h, K, d] to the running ones; not where the scalar `active` is false."""
        counts, sums = counts.to(self.cluster_size.dtype), sums.to(self.embed_avg.dtype)
        if self.synced:
            both = _ranks.sum_over_ranks(torch.cat([sums, counts.unsqueeze(2)], 2))
            sums, counts = both[..., :-1], both[..., -1]
        weight = 1 - self.decay if active is None else (1 - self.decay) * active.to(counts.dtype)
        self.cluster_size.lerp_(counts, weight)
        self.embed_avg.lerp_(sums, weight)

    @torch.no_grad()
    def follow(self, active: Optional[Tensor] = None) -> None:
        """Sets the codes to their running means, c_k = S_k / ((N_k + eps) / (N + K eps) N) with N the sum of all N_k; not
        where the scalar `active` is false."""
        total = self.cluster_size.sum(1, keepdim=True)
        sizes = (self.cluster_size + self.eps) * (total / (total + self.eps * self.cluster_size.shape[1]))
        if active is None and not self.cosine:
            self.embed.copy_(self.embed_avg).div_(sizes.unsqueeze(2))
            return
        means = self.embed_avg / sizes.unsqueeze(2)
        means = unit(means) if self.cosine else means
        self.embed.copy_(means if active is None else torch.where(active, means, self.embed))

    @torch.no_grad()
    def replace_unused(self, rows: Sequence[Tensor], mask: Optional[Tensor], active: Optional[Tensor] = None) -> None:
        """Makes each code whose running count is below the threshold one of its head's rows [N, d], drawn by chance.

        No row is drawn twice; if there are fewer rows than such codes, the rest of the codes wait for the next step. With
        several ranks they take turns. The host does not wait on a GPU.
        """
        unused = self.cluster_size < self.threshold
        if active is not None:
            unused = unused & active
        if unused.is_cpu and not torch.compiler.is_compiling() and not unused.any():
            return
        for head, own in enumerate(rows):
            drawn, taken = self._draw(own.detach(), mask, unused[head])
            self.embed[head].copy_(torch.where(taken.unsqueeze(1), drawn, self.embed[head]))
            self.cluster_size[head].masked_fill_(taken, self.threshold)
            self.embed_avg[head].copy_(torch.where(taken.unsqueeze(1), drawn * self.threshold, self.embed_avg[head]))

    def _draw(self, rows: Tensor, mask: Optional[Tensor], unused: Tensor) -> tuple[Tensor, Tensor]:
        """A row for each unused code [K, d], and which codes got one [K]."""
        rank, ranks = _ranks.rank_and_size() if self.synced else (0, 1)
        valid: Any = rows.shape[0]
        if valid == 0:
            rows, mask = rows.new_zeros(1, rows.shape[1]), None
        keys = torch.rand(rows.shape[0], device=rows.device)
        if mask is not None:
            keys, valid = keys.masked_fill(~mask, 2), mask.sum()  # those that do not count come last
        turn = unused.cumsum(0) - 1  # of an unused code among them
        own = torch.div(turn, ranks, rounding_mode="floor")
        taken = unused & (turn % ranks == rank) & (own < valid)
        drawn = rows[keys.argsort()[own.clamp(0, rows.shape[0] - 1)]].to(self.embed.dtype)
        if ranks > 1:
            drawn = torch.cat([drawn, torch.ones_like(drawn[:, :1])], 1) * taken.unsqueeze(1)
            drawn = _ranks.sum_over_ranks(drawn)  # of one row and zeros
            drawn, taken = drawn[:, :-1], drawn[:, -1] > 0
        return drawn, taken


@torch.library.custom_op("nsvq_modules::kmeans_start", mutates_args=())
def _kmeans_start(rows: Tensor, mask: Optional[Tensor], codes: int, iterations: int, cosine: bool,
                  over_ranks: bool) -> tuple[Tensor, Tensor]:
    """Centres [codes, d] of the rows [N, d] that count, and how many rows each has [codes]. An operator, so that
    torch.compile takes it as a whole."""
    points = rows if mask is None else rows[mask]
    points = (_ranks.all_rows(points) if over_ranks else points).float()
    if len(points) == 0:
        raise ValueError("kmeans_init: the first batch has no latents")
    if len(points) < codes:  # all of them, then copies that differ a little
        copies = points[torch.arange(codes, device=points.device) % len(points)]
        noise = torch.randn(copies.shape, generator=torch.Generator().manual_seed(0)).to(copies)
        copies[len(points):] += noise[len(points):] * (1e-3 * points.std())
        points = copies
    centres = kmeans(points, codes, iterations=iterations).codes
    if cosine:
        centres = unit(centres)
    counts = torch.ops.nsvq.code_usage(torch.ops.nsvq.nearest_codes(points, centres)[0], codes)
    return centres, counts.float()


@_kmeans_start.register_fake
def _(rows: Tensor, mask: Optional[Tensor], codes: int, iterations: int, cosine: bool,
      over_ranks: bool) -> tuple[Tensor, Tensor]:
    return rows.new_empty(codes, rows.shape[1], dtype=torch.float32), rows.new_empty(codes, dtype=torch.float32)


def statistics(rows: Sequence[Tensor], indices: Sequence[Tensor], codes: int, mask: Optional[Tensor]) -> tuple[Tensor, Tensor]:
    """Counts [h, codes] int64 and sums [h, codes, d] of each head's rows [N, d]; rows outside the mask [N] are left out."""
    counts, sums = [], []
    for own, chosen in zip(rows, indices):
        own = own.detach()
        if mask is None:
            counts.append(torch.ops.nsvq.code_usage(chosen, codes))
            sums.append(sums_of_codes(own, chosen, codes))
        else:  # one code more, for those that do not count
            chosen = chosen.masked_fill(~mask, codes)
            counts.append(torch.ops.nsvq.code_usage(chosen, codes + 1)[:codes])
            sums.append(sums_of_codes(own, chosen, codes + 1)[:codes])
    if len(counts) == 1:
        return counts[0].unsqueeze(0), sums[0].unsqueeze(0)
    return torch.stack(counts), torch.stack(sums)
