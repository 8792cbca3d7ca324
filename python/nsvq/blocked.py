"""The search by blocked torch products, on any device: exact, without the N x K matrix.

The library's CPU build has no kernels for a GPU; there these functions take their place (`register`). On every device they
find the k nearest codes, and search in fp64 (torch.ops.nsvq_package). Rules and results are those of
nsvq/ops/code_search/code_search.h; unlike its kernels they make the host wait for a GPU.

Why the search is exact. Latents and codes are centred and scaled to A = (z - m) scale and B = (c - m) scale, |A_i| <= 1 by
component, and rounded to A' = A + a and B' = B + b. Exact scores S_ij = |B_j|^2 - 2 A_i.B_j order the codes of a latent by
distance; a product gives s_ij = |B_j|^2 - 2 A'_i.B'_j. With u the unit roundoff of the product (2^-24, fp64: 2^-53), v = 2^-53
and norms that include the residuals |a| and |b|, which are measured, |s - S| is at most

    E_ij = 2 (|a_i| |B_j| + |A_i| |b_j|)      rounding of the inputs
         + (4 d + 16) u |A_i| |B_j|           sums of d terms in any order, twice over; the difference
         + (d + 16) u |B_j|^2                 |B|^2, summed in fp64 and rounded; the difference
         + 8 (d + 4) v (|A_i|^2 + |B_j|^2)    rounding of the fp64 distances that decide

slightly enlarged, and with an absolute term for what underflows. If k codes have scores up to s with bounds up to E, the k
nearest have S <= s + E, so that only codes with s_j - E_j <= s + E have to be measured, by their differences in fp64.
A' and B' have 11 significant bits on a GPU, whose products may be in TF32, and 8 on a CPU that was allowed bf16 for products:
the product of such numbers is the same in fp32, so that exactness does not depend on these settings.
"""

import functools
import os

import torch

_CELLS = {"cuda": 2**24}  # scores held at a time; elsewhere:
_CELLS_ELSEWHERE = 2**21
_V = 2.0**-53


def _check(op, latents, codebook, tau=None):
    if latents.dim() != 2 or codebook.dim() != 2 or latents.shape[1] != codebook.shape[1]:
        raise ValueError(f"{op}: latents must be [N, d] and codebook [K, d], but they are "
                         f"{list(latents.shape)} and {list(codebook.shape)}")
    if latents.device != codebook.device:
        raise ValueError(f"{op}: latents are on {latents.device}, but codebook is on {codebook.device}")
    if codebook.numel() == 0:
        raise ValueError(f"{op}: codebook is empty")
    if tau is not None and not tau > 0:
        raise ValueError(f"{op}: tau must be positive, but it is {tau}")


def _kernel(function):
    """For a function of tensors that is an operator's kernel: no gradients, no casts by autocast."""
    @functools.wraps(function)
    def call(first, *others):
        with torch.no_grad(), torch.autocast(first.device.type, enabled=False):
            return function(first, *others)
    return call


def _product_bits(device):
    """Significant bits that a product of fp32 matrices keeps of its inputs, at least."""
    if device.type != "cpu":
        return 11
    try:
        settings = {torch.get_float32_matmul_precision(), torch.backends.mkldnn.matmul.fp32_precision,
                    torch.backends.fp32_precision, os.environ.get("ONEDNN_DEFAULT_FPMATH_MODE", "none")}
    except RuntimeError:  # both of torch's interfaces were used to set it, which it refuses to sum up
        return 8
    return 24 if settings <= {"highest", "ieee", "none"} else 8


def _rounded(values, bits):
    if values.dtype == torch.float64 or bits == 24:
        return values
    drop = 24 - bits
    whole = values.view(torch.int32) + (1 << (drop - 1))
    return whole.bitwise_and_(-1 << drop).view(torch.float32)


class _Packed:
    """Rows [n, d] as they go into a product, and upper bounds of their norms and residuals, in fp64."""

    def __init__(self, rows, frame, bits):
        exact = (rows.double() - frame.centre) * frame.scale
        self.values = _rounded(exact.to(frame.wide), bits)
        self.square = exact.square().sum(1)
        residual = (self.values.double() - exact).norm(dim=1)
        norm = exact.norm(dim=1)
        self.residual = 1.001 * residual + 3 * _V * norm
        self.norm = 1.001 * norm + self.residual


class _Frame:
    """What all blocks of a search share."""

    def __init__(self, latents, codebook):
        if latents.is_cuda and torch.cuda.is_current_stream_capturing():
            raise RuntimeError("nsvq: CUDA graphs need a library with CUDA kernels, for float32 and smaller types; install nsvq "
                               "where nvcc is, or leave the search out of the graph")
        self.latents, self.codebook = latents, codebook
        self.wide = torch.float64 if torch.float64 in (latents.dtype, codebook.dtype) else torch.float32
        self.dimension = codebook.shape[1]
        self.bits = _product_bits(latents.device)
        self.finite = torch.isfinite(latents).all(1)
        ends = torch.stack(torch.aminmax(codebook)).double()
        self.codes_finite = bool(torch.isfinite(ends).all())
        self.centre = codebook.mean(0, dtype=torch.float64)
        largest = ends.abs().max()
        if latents.numel():
            largest = torch.maximum(largest, latents.masked_fill(~self.finite[:, None], 0).abs().max().double())
        self.scale = 0.5 / largest.clamp_min(1e-150)
        cells = _CELLS.get(latents.device.type, _CELLS_ELSEWHERE)
        self.pairs_at_a_time = max(1, cells // self.dimension)
        self.rows_at_a_time = min(self.pairs_at_a_time, max(int(cells**0.5), cells // codebook.shape[0]))
        self.codes_at_a_time = min(self.pairs_at_a_time, max(1, cells // self.rows_at_a_time))

    def refuse_not_finite(self, op):
        for name, finite in (("codebook holds", self.codes_finite), ("latents hold", bool(self.finite.all()))):
            if not finite:
                raise RuntimeError(f"{op}: {name} NaN or infinity")

    def blocks(self):
        """(rows as a slice, their latents, zero where not finite)"""
        for first in range(0, self.latents.shape[0], self.rows_at_a_time):
            rows = slice(first, first + self.rows_at_a_time)
            yield rows, self.latents[rows].masked_fill(~self.finite[rows, None], 0)

    def tiles(self, bits):
        """(index of the first code, these codes packed)"""
        for first in range(0, self.codebook.shape[0], self.codes_at_a_time):
            yield first, _Packed(self.codebook[first:first + self.codes_at_a_time], self, bits)

    def errors(self, a_norm, a_residual, b_norm, b_residual):
        """E of the comment above."""
        d, u = self.dimension, _V if self.wide == torch.float64 else 2.0**-24
        both = a_norm * b_norm
        error = 2 * (a_residual * b_norm + a_norm * b_residual) + (4 * d + 16) * u * both + (d + 16) * u * b_norm**2
        return 1.01 * (error + 8 * (d + 4) * _V * (a_norm**2 + b_norm**2)) + (1e-30 if u > _V else 1e-270)

    def distances(self, latents, rows, codes):
        """Squared distances of pairs [m] by fp64 differences, added in the order of components."""
        pieces = [torch.zeros(0, dtype=torch.float64, device=latents.device)]
        for first in range(0, rows.shape[0], self.pairs_at_a_time):
            some = slice(first, first + self.pairs_at_a_time)
            differences = latents.t().index_select(1, rows[some]).double()
            differences -= self.codebook.t().index_select(1, codes[some]).double()
            # A sum over the outer dimension goes one by one on every device; sum() adds in an order of its own.
            pieces.append(differences.square_().cumsum(0)[-1])
        return torch.cat(pieces)


def _scores(packed, tile):
    return torch.addmm(tile.square.to(tile.values.dtype), packed.values, tile.values.t(), alpha=-2)


class _Best:
    """The k nearest codes met so far of each latent of a block: ordered by distance, then by index."""

    def __init__(self, rows, k, device):
        self.k = k
        self.distances = torch.full((rows, k), torch.inf, dtype=torch.float64, device=device)
        self.indices = torch.full((rows, k), -1, dtype=torch.int64, device=device)

    def add(self, rows, distances, indices):
        """Pairs [m] in the order of rows, and of indices within a row, all above those met before."""
        touched, place = torch.unique_consecutive(rows, return_inverse=True)
        own = torch.arange(touched.shape[0], device=rows.device)
        row = torch.cat([own.repeat_interleave(self.k), place])
        distances = torch.cat([self.distances[touched].flatten(), distances])
        indices = torch.cat([self.indices[touched].flatten(), indices])
        order = distances.argsort(stable=True)
        order = order[row[order].argsort(stable=True)]
        firsts = torch.searchsorted(row[order], own)
        chosen = order[firsts[:, None] + torch.arange(self.k, device=rows.device)]
        self.distances[touched], self.indices[touched] = distances[chosen], indices[chosen]


def _search_block(frame, latents, k):
    packed, best = _Packed(latents, frame, frame.bits), _Best(latents.shape[0], k, latents.device)
    upper = torch.full_like(packed.norm, torch.inf)  # of the k-th least S
    for first, tile in frame.tiles(frame.bits):
        scores = _scores(packed, tile)
        error = frame.errors(packed.norm, packed.residual, tile.norm.max(), tile.residual.max())
        if scores.shape[1] >= k:
            least = scores.amin(1) if k == 1 else scores.topk(k, 1, largest=False, sorted=False).values.amax(1)
            upper = torch.minimum(upper, least.double() + error)
        limit = (upper + error).to(scores.dtype)
        rows, codes = (scores <= limit[:, None]).nonzero(as_tuple=True)
        # Once more with the bound of each code's own norm: a few large codes make the common one too wide.
        error = frame.errors(packed.norm[rows], packed.residual[rows], tile.norm[codes], tile.residual[codes])
        some = scores[rows, codes].double()
        if k == 1:
            upper = upper.scatter_reduce(0, rows, some + error, "amin")
        near = some - error <= upper[rows]
        rows, codes = rows[near], codes[near] + first
        if rows.shape[0]:
            best.add(rows, frame.distances(latents, rows, codes), codes)
            last = best.distances[:, -1] * frame.scale**2
            rounding = 4 * (frame.dimension + 8) * _V * (last + packed.square) + 1e-270
            upper = torch.minimum(upper, last - packed.square + rounding)
    return best.indices, best.distances


def _search(frame, k):
    """Indices [N, k] and squared distances [N, k] in fp64; -1 and NaN where a latent, or a code, is not finite."""
    shape, device = (frame.latents.shape[0], k), frame.latents.device
    indices = torch.full(shape, -1, dtype=torch.int64, device=device)
    distances = torch.full(shape, torch.nan, dtype=torch.float64, device=device)
    if frame.codes_finite:
        for rows, latents in frame.blocks():
            indices[rows], distances[rows] = _search_block(frame, latents, k)
    lost = ~frame.finite[:, None]
    return indices.masked_fill_(lost, -1), distances.masked_fill_(lost, torch.nan)


@_kernel
def k_nearest(latents, codebook, k):
    """The k nearest codes: indices [N, k] int64, the nearest first, and squared distances [N, k]."""
    _check("nearest", latents, codebook)
    frame = _Frame(latents, codebook)
    if latents.device.type == "cpu":
        frame.refuse_not_finite("nearest")
    if not 0 < k <= codebook.shape[0]:
        raise ValueError(f"nearest: k must be from 1 to {codebook.shape[0]}, the number of codes, but it is {k}")
    indices, distances = _search(frame, k)
    return indices, distances.to(frame.wide)


@_kernel
def nearest_codes(latents, codebook):
    _check("nearest_codes", latents, codebook)
    indices, distances = _search(_Frame(latents, codebook), 1)
    return indices[:, 0].contiguous(), distances[:, 0].float()


class _Weights:
    """The softmax weights of a block of latents, relative to the winner's, which is left out."""

    def __init__(self, frame, latents, winners, distances, tau):
        self.packed, self.winners = _Packed(latents, frame, 24), winners
        self.reference = (distances.nan_to_num() * frame.scale**2 - self.packed.square).to(frame.wide)[:, None]
        self.rate = (1 / (tau * frame.scale**2)).clamp_max(1e30).to(frame.wide)

    def gaps_and_weights(self, first, tile):
        """Squared distances [rows, codes] less the winner's, and their weights."""
        gaps = (_scores(self.packed, tile) - self.reference).clamp_min_(0)  # only rounding puts a score below the winner's
        weights = (gaps * -self.rate).exp_()
        own = self.winners - first
        rows = ((own >= 0) & (own < tile.values.shape[0])).nonzero()[:, 0]
        weights[rows, own[rows]] = 0
        return gaps, weights


@_kernel
def ns_search(latents, codebook, tau):
    _check("ns_search", latents, codebook, tau)
    frame = _Frame(latents, codebook)
    indices, distances = (one[:, 0] for one in _search(frame, 1))
    sums, scored = torch.zeros_like(distances), torch.zeros_like(distances)
    if frame.codes_finite:
        for rows, block in frame.blocks():
            softmax = _Weights(frame, block, indices[rows], distances[rows], tau)
            for first, tile in frame.tiles(24):
                gaps, weights = softmax.gaps_and_weights(first, tile)
                sums[rows] += weights.sum(1, dtype=torch.float64)
                scored[rows] += weights.mul_(gaps).sum(1, dtype=torch.float64)
    denominators = (1 + sums).masked_fill(indices < 0, torch.nan)
    losses = (scored / frame.scale**2 + distances * sums) / denominators
    return indices.contiguous(), *(one.to(frame.wide) for one in (distances, losses, denominators))


@_kernel
def ns_codebook_grad(latents, codebook, indices, denominators, tau):
    _check("ns_codebook_grad", latents, codebook, tau)
    if indices.shape != latents.shape[:1] or denominators.shape != indices.shape:
        raise ValueError(f"ns_codebook_grad: indices and denominators must be [N] with N = {latents.shape[0]}, but they are "
                         f"{list(indices.shape)} and {list(denominators.shape)}")
    frame = _Frame(latents, codebook)
    gradient = torch.zeros(codebook.shape, dtype=frame.wide, device=codebook.device)
    if not frame.codes_finite:
        return gradient
    shares = denominators.to(frame.wide).reciprocal().masked_fill(indices < 0, 0)[:, None]
    mass = gradient.new_zeros(codebook.shape[0])
    for rows, block in frame.blocks():
        winners = indices[rows]
        distances = frame.distances(block, torch.arange(block.shape[0], device=block.device), winners.clamp_min(0))
        softmax = _Weights(frame, block, winners, distances, tau)
        for first, tile in frame.tiles(24):
            some = slice(first, first + tile.values.shape[0])
            weights = softmax.gaps_and_weights(first, tile)[1].mul_(shares[rows])
            mass[some] += weights.sum(0)
            gradient[some].addmm_(weights.t(), softmax.packed.values, alpha=-1)
    for first, tile in frame.tiles(24):
        some = slice(first, first + tile.values.shape[0])
        gradient[some].addcmul_(tile.values, mass[some, None])
    return gradient.div_(frame.scale.to(frame.wide))


@_kernel
def code_usage(indices, codes):
    flat = indices.flatten()
    return torch.zeros(codes, dtype=torch.int64, device=indices.device).index_add_(0, flat, torch.ones_like(flat))


@_kernel
def code_sums(latents, indices, codes):
    sums = torch.zeros(codes, latents.shape[1], dtype=torch.float64, device=latents.device)
    return sums.index_put_((indices,), latents.double(), accumulate=True).float()  # repeatable, unlike index_add_ on a GPU


_libraries = []


def register(key):
    """Makes these the operators torch.ops.nsvq.* for a dispatch key, for instance CUDA, that has no kernels."""
    library = torch.library.Library("nsvq", "IMPL")
    for function in (nearest_codes, ns_search, ns_codebook_grad, code_usage, code_sums):
        library.impl(function.__name__, function, key)
    _libraries.append(library)


def _rows_of(latents, *types):
    return tuple(latents.new_empty(latents.shape[0], dtype=one) for one in types)


def _define():
    """The operators for what the library's own do not take: k codes, and fp64."""
    library = torch.library.Library("nsvq_package", "DEF")
    library.define("nearest(Tensor latents, Tensor codebook, int k) -> (Tensor, Tensor)")
    library.define("ns_search(Tensor latents, Tensor codebook, float tau) -> (Tensor, Tensor, Tensor, Tensor)")
    library.define("ns_codebook_grad(Tensor latents, Tensor codebook, Tensor indices, Tensor denominators, float tau) "
                   "-> Tensor")
    for name, function in (("nearest", k_nearest), ("ns_search", ns_search), ("ns_codebook_grad", ns_codebook_grad)):
        library.impl(name, function, "CompositeExplicitAutograd")
    _libraries.append(library)

    def wide(latents, codebook):
        return torch.float64 if torch.float64 in (latents.dtype, codebook.dtype) else torch.float32

    @torch.library.register_fake("nsvq_package::nearest", lib=library)
    def _(latents, codebook, k):
        shape = (latents.shape[0], k)
        return latents.new_empty(shape, dtype=torch.int64), latents.new_empty(shape, dtype=wide(latents, codebook))

    @torch.library.register_fake("nsvq_package::ns_search", lib=library)
    def _(latents, codebook, tau):
        return _rows_of(latents, torch.int64, *[wide(latents, codebook)] * 3)

    @torch.library.register_fake("nsvq_package::ns_codebook_grad", lib=library)
    def _(latents, codebook, indices, denominators, tau):
        return codebook.new_empty(codebook.shape, dtype=wide(latents, codebook))


_define()
