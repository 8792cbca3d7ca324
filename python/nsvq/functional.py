"""Functions: the nearest codes, the NS loss and clusters, exact and without the N x K matrix."""

from typing import NamedTuple

import torch
from torch import Tensor

from nsvq import _library, blocked  # noqa: F401: torch.ops.nsvq and torch.ops.nsvq_package

_TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


class Nearest(NamedTuple):
    """What `nearest` found."""

    indices: Tensor
    distances: Tensor


class Clusters(NamedTuple):
    """What `kmeans` found."""

    codes: Tensor
    counts: Tensor


def _check(x, codes):
    for name, value in (("x", x), ("codes", codes)):
        if not isinstance(value, Tensor):
            raise ValueError(f"{name} must be a tensor, but it is {type(value).__name__}")
        if value.dtype not in _TYPES:
            raise ValueError(f"{name} must be fp32, bf16, fp16 or fp64, but it is {value.dtype}")
    if codes.dim() != 2 or codes.shape[0] == 0:
        raise ValueError(f"codes must be [K, d] with K > 0, but they are {list(codes.shape)}")
    if x.dim() == 0 or x.shape[-1] != codes.shape[1]:
        raise ValueError(f"x must be [..., d] with d = {codes.shape[1]} as codes have it, but it is {list(x.shape)}")
    if x.device != codes.device:
        raise ValueError(f"codes are on {codes.device}, but x is on {x.device}")


def _is_wide(x, codes):
    return x.dtype is torch.float64 or codes.dtype is torch.float64


def _rows(x):
    """x [..., d] as [N, d]; one that is so is not touched: a view takes as long as all checks."""
    return x if x.dim() == 2 else x.reshape(-1, x.shape[-1])


def _shaped(found, shape):
    """What was found for rows, [N] or [N, k], as [*shape] or [*shape, k]."""
    if len(shape) == 1:
        return found
    return found.view(*shape, *found.shape[1:]) if shape else found[0]


def nearest(x: Tensor, codes: Tensor, k: int = 1) -> Nearest:
    """The nearest codes, exactly, without the matrix of all distances.

    x: [..., d] and codes: [K, d], both fp32, bf16, fp16 or fp64, contiguous or not, K up to 2^24. Gives `indices` (int64) and
    squared `distances` (fp32; fp64 where one of the inputs is), [...] for k = 1 and [..., k], the nearest first, for more.
    Exact: the least distances by fp64 differences of the given values, the lowest index on ties. Distances have gradients
    for x and codes. A value that is not finite is an error on a CPU; on a GPU such a row gets index -1 and distance NaN, and
    all rows if a code is not finite.
    """
    _check(x, codes)
    if isinstance(k, bool) or not isinstance(k, int) or not 0 < k <= codes.shape[0]:
        raise ValueError(f"k must be a whole number from 1 to {codes.shape[0]}, the number of codes, but it is {k!r}")
    rows, shape = _rows(x), x.shape[:-1]
    if k == 1 and not _is_wide(x, codes):
        indices, distances = torch.ops.nsvq.nearest_codes(rows, codes)
        return Nearest(_shaped(indices, shape), _shaped(distances, shape))
    indices, distances = torch.ops.nsvq_package.nearest(rows.detach(), codes.detach(), k)
    if torch.is_grad_enabled() and (x.requires_grad or codes.requires_grad):
        wide = distances.dtype
        towards = rows[:, None].to(wide) - codes[indices.clamp_min(0)].to(wide)
        distances = towards.square().sum(-1).masked_fill(indices < 0, torch.nan)
    if k == 1:
        indices, distances = indices.squeeze(1), distances.squeeze(1)
    return Nearest(_shaped(indices, shape), _shaped(distances, shape))


class _WideLoss(torch.autograd.Function):
    """The NS loss in fp64, which the library's operators do not take."""

    @staticmethod
    def forward(ctx, x, codes, tau):
        indices, _, losses, denominators = torch.ops.nsvq_package.ns_search(x, codes, tau)
        ctx.tau, ctx.type = tau, codes.dtype
        ctx.save_for_backward(x, codes, indices, denominators)
        return losses.sum() / max(1, x.numel())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        x, codes, indices, denominators = ctx.saved_tensors
        towards = torch.ops.nsvq_package.ns_codebook_grad(x, codes, indices, denominators, ctx.tau)
        return None, (towards * (gradient * 2 / max(1, x.numel()))).to(ctx.type), None


def ns_loss(x: Tensor, codes: Tensor, tau: float = 0.35) -> Tensor:
    """The NS loss, which draws the codes that a latent does not use towards it.

    x: [..., d], N latents in all; codes: [K, d], types as for `nearest`. The scalar
    1 / (N d) sum_i sum_{j != q_i} p_ij |x_i - c_j|^2, with q_i the nearest code and p_i the detached softmax of
    -|x_i - c_j|^2 / tau over all codes. Its gradient reaches the codes alone. Neither the loss nor its gradient makes the
    N x K matrix.
    """
    _check(x, codes)
    if not isinstance(tau, (int, float)) or not tau > 0:
        raise ValueError(f"tau must be a positive number, but it is {tau!r}")
    rows = _rows(x).detach() if x.requires_grad else _rows(x)
    if _is_wide(x, codes):
        return _WideLoss.apply(rows, codes, float(tau))
    return torch.ops.nsvq.ns_quantize(rows, codes, float(tau))[2]


def _draw(weights, count, generator):
    """`count` different positions, with chances in proportion to weights: the order of log weight + Gumbel noise."""
    noise = torch.rand(weights.shape, generator=generator, dtype=torch.float64).clamp_min_(1e-300)
    keys = weights.double().log() - noise.log_().neg_().log_().to(weights.device)
    return keys.argsort(stable=True, descending=True)[:count]


def _spread(points, k, generator):
    """k-means++: each start is drawn in proportion to its squared distance from those before it; with more than 128 of them
    several are drawn at a time."""
    weights = torch.ones(points.shape[0], device=points.device)
    chosen = []
    while len(chosen) < k:
        count = min(max(1, -(-k // 128)), k - len(chosen)) if chosen else 1
        drawn = _draw(weights, count, generator)
        distances = nearest(points, points[drawn]).distances
        weights = torch.minimum(weights, distances) if chosen else distances
        chosen += drawn.tolist()
    return points[torch.tensor(chosen, device=points.device)]


def _sums(points, indices, k):
    if points.dtype == torch.float64:
        return points.new_zeros(k, points.shape[1]).index_put_((indices,), points, accumulate=True)
    return torch.ops.nsvq.code_sums(points, indices, k)


def _means(points, codes, generator):
    """The mean of each cluster; one without points begins anew at a point far from its code."""
    k = codes.shape[0]
    found = nearest(points, codes)
    counts = torch.ops.nsvq.code_usage(found.indices, k)
    means = _sums(points, found.indices, k) / counts.clamp_min(1)[:, None]
    empty = (counts == 0).nonzero()[:, 0]
    if empty.shape[0]:
        means[empty] = points[_draw(found.distances, empty.shape[0], generator)]
    return means


@torch.no_grad()
def kmeans(x: Tensor, k: int, *, iterations: int = 10, start: str = "random", seed: int = 0) -> Clusters:
    """k clusters by Lloyd's algorithm, each assignment exact and without the N x k matrix.

    x: [..., d], N >= k rows in all, types as for `nearest`. `start` is "random", k of the rows, or "k-means++", rows that
    lie apart, drawn from a sample of 8 k rows (at least 16,384). A cluster without points begins anew at a row far from its
    code. The seed alone decides. Gives `codes` [k, d] in the type of x, and `counts` [k] int64, how many rows each of them is
    nearest to.
    """
    if not isinstance(x, Tensor) or x.dim() < 2 or x.dtype not in _TYPES:
        raise ValueError("x must be a tensor [..., d] in fp32, bf16, fp16 or fp64")
    points = x.reshape(-1, x.shape[-1])
    points = points if points.dtype == torch.float64 else points.float()
    n = points.shape[0]
    if isinstance(k, bool) or not isinstance(k, int) or not 0 < k <= n:
        raise ValueError(f"k must be a whole number from 1 to {n}, the rows of x, but it is {k!r}")
    if not isinstance(iterations, int) or iterations < 0:
        raise ValueError(f"iterations must be a whole number from 0, but it is {iterations!r}")
    if start not in ("random", "k-means++"):
        raise ValueError(f"start must be 'random' or 'k-means++', but it is {start!r}")
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(n, generator=generator)[:k if start == "random" else max(8 * k, 16384)]
    codes = points[rows.to(points.device)]
    if start == "k-means++":
        codes = _spread(codes, k, generator)
    for _ in range(iterations):
        codes = _means(points, codes, generator)
    codes = codes.to(x.dtype)
    return Clusters(codes, torch.ops.nsvq.code_usage(nearest(points, codes).indices.flatten(), k))
