"""Nearest codes, and the gradients that pass them."""

from typing import Optional

import torch
from torch import Tensor

from nsvq import _library, blocked  # noqa: F401: torch.ops.nsvq and torch.ops.nsvq_package

_LEAST_NORM = 1e-6  # what a vector is divided by is no less

STRAIGHT, ROTATION, TO_CODES = "straight", "rotation", "codes"
"""Where the gradient of quantized latents goes: to the latents as it is, to them through a rotation, or to the codes."""

_PAIRS_AT_A_TIME = 1 << 22


def constant(x: Tensor) -> Tensor:
    """x without its gradient; itself where it has none, since each view takes microseconds."""
    return x.detach() if x.requires_grad else x


def search(rows: Tensor, codebook: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest code of each row: indices [N] int64 and squared distances [N] fp32, exact, without gradients.

    rows [N, d] and codebook [K, d] have one dtype, fp32 or fp64. On a GPU a row that is not finite gets index 0 and
    distance NaN, on a CPU it is an error.
    """
    rows, codebook = constant(rows), constant(codebook)
    if rows.is_cpu:
        return torch.ops.nsvq.nearest_codes(rows, codebook)
    if rows.dtype is torch.float64:  # the kernels of a GPU stop at fp32
        indices, distances = (one.squeeze(1) for one in torch.ops.nsvq_package.nearest(rows, codebook, 1))
    else:
        indices, distances = torch.ops.nsvq.nearest_codes(rows, codebook)
    return indices.clamp_min(0), distances


def search_sampled(rows: Tensor, codebook: Tensor, temperature: float) -> Tensor:
    """A code for each row by chance, with probabilities softmax(-|z - c| / temperature): indices [N] int64.

    N x K numbers are made some rows at a time.
    """
    rows, codebook, drawn = rows.detach(), codebook.detach(), []
    for part in rows.split(max(1, _PAIRS_AT_A_TIME // codebook.shape[0])):
        noise = -torch.empty(part.shape[0], codebook.shape[0], dtype=rows.dtype, device=rows.device).exponential_().log()
        drawn.append(torch.cdist(part, codebook).mul_(-1 / temperature).add_(noise).argmax(1))
    return torch.cat(drawn)


def assign(rows: Tensor, codebook: Tensor, indices: Tensor, distances: Optional[Tensor], weights: Optional[Tensor] = None, *,
           through: str = STRAIGHT, to_rows: float = 1.0, to_codes: float = 0.0) -> tuple[Tensor, Tensor]:
    """The codes [N, d] that `indices` [N] name, and the mean squared difference of rows and codes, a scalar.

    rows [N, d], codebook [K, d]; distances [N] of the search, or None to measure them; weights [N]: a row's part in the
    mean (None: equal parts). The gradient of the codes goes where `through` says, that of the mean to the rows times
    `to_rows` and to the codebook times `to_codes`.
    """
    if rows.dtype is torch.float64:
        distances = None  # those of the search are rounded to fp32
    return _Assign.apply(rows, codebook, indices, distances, weights, through, to_rows, to_codes)


class _Assign(torch.autograd.Function):
    """`assign`; the codebook may change in place before the backward pass, since only its chosen rows are kept."""

    @staticmethod
    def forward(ctx, rows, codebook, indices, distances, weights, through, to_rows, to_codes):
        codes = codebook.index_select(0, indices)
        if distances is None:
            distances = (rows - codes).square().sum(1)
        if weights is None:
            scale = None
            mean = distances.sum() * (1 / max(1, rows.numel()))
        else:
            scale = weights / (weights.sum().clamp_min(1) * rows.shape[1])
            mean = (distances * scale).sum()
        ctx.save_for_backward(rows, codes, indices, scale)
        ctx.settings = through, to_rows, to_codes, codebook.shape[0]
        return codes, mean

    @staticmethod
    def backward(ctx, of_codes, of_mean):
        rows, codes, indices, scale = ctx.saved_tensors
        through, to_rows, to_codes, count = ctx.settings
        codes = codes.detach()
        difference = rows - codes
        if scale is None:
            difference = difference * (of_mean * (2 / max(1, rows.numel())))
        else:
            difference = difference * (of_mean * 2 * scale).unsqueeze(1)
        of_rows = of_codebook = None
        if ctx.needs_input_grad[0]:
            of_rows = difference * to_rows if to_rows != 1 else difference
            if through == STRAIGHT:
                of_rows = of_rows + of_codes
            elif through == ROTATION:
                of_rows = of_rows + rotated_back(of_codes, rows.detach(), codes)
        if ctx.needs_input_grad[1]:
            of_chosen = of_codes - difference * to_codes if through == TO_CODES else difference * -to_codes
            of_codebook = sums_of_codes(of_chosen, indices, count)
        return of_rows, of_codebook, None, None, None, None, None, None


@torch.library.custom_op("nsvq_modules::after", mutates_args=())
def _after(counts: Tensor, codes: list[Tensor]) -> Tensor:
    return counts.clone()


@_after.register_fake
def _(counts: Tensor, codes: list[Tensor]) -> Tensor:
    return torch.empty_like(counts)


def after(counts: Tensor, codes: list[Tensor]) -> Tensor:
    """The counts, which a compiled graph has only once it has read the codes.

    A codebook changes in place by its counts. Inductor of torch 2.11 makes this change before it reads the codes that
    were chosen, unless what changes them depends on these.
    """
    return _after(counts, [one.detach() for one in codes]) if torch.compiler.is_compiling() else counts


def rotated_back(gradient: Tensor, rows: Tensor, codes: Tensor) -> Tensor:
    """The gradient [N, d] for rows z of codes c = |c| / |z| R z, with the rotation R and the factor as constants.

    R = I - 2 w w' + 2 c^ z^', z^ = z / |z|, c^ = c / |c|, w = (z^ + c^) / |z^ + c^| (docs/quantizers.md, "Rotation").
    """
    length, target = _norm(rows).clamp_min(_LEAST_NORM), _norm(codes)
    start, end = rows / length, codes / target.clamp_min(_LEAST_NORM)
    between = start + end
    between = between / _norm(between).clamp_min(_LEAST_NORM)
    along, towards = (between * gradient).sum(1, keepdim=True), (end * gradient).sum(1, keepdim=True)
    return torch.addcmul(torch.addcmul(gradient, between, along, value=-2), start, towards, value=2) * (target / length)


def _norm(vectors: Tensor) -> Tensor:
    return torch.linalg.vector_norm(vectors, dim=1, keepdim=True)


def sums_of_codes(rows: Tensor, indices: Tensor, codes: int) -> Tensor:
    """The sum of the rows [N, d] of each code: [codes, d] in the rows' dtype, equal bits in every run."""
    if rows.dtype is torch.float64:  # the operator's sums are fp32
        return rows.new_zeros(codes, rows.shape[1]).index_add_(0, indices, rows)
    return torch.ops.nsvq.code_sums(rows, indices, codes)


def unit(rows: Tensor) -> Tensor:
    """Rows [..., d] divided by their norms, which are taken as 1e-6 at least."""
    return torch.nn.functional.normalize(rows, dim=-1, eps=_LEAST_NORM)
