"""LFQ: the signs of a latent, with entropy terms, and its spherical form (BSQ)."""

import math
from typing import Any, NamedTuple, Optional, Union

import torch
import torch.utils._pytree
from torch import Tensor
from torch.nn import functional as F

from nsvq.quantizers._arguments import check_count, refuse
from nsvq.quantizers._layout import Quantizer, at_least_fp32, check_finite, projections
from nsvq.quantizers._single import without_autocast

_MOST_BITS = 24
_REFUSED = {
    "straight_through_activation": ((None,), "gradients pass unchanged"),
    "codebook_scale": ((1,), "codes are -1 and 1; scale x"),
    "frac_per_sample_entropy": ((1,), "the entropy of all latents needs no N x K matrix"),
    "has_projections": ((None,), "there are projections where dim is not num_codebooks * log2(codebook_size)"),
    "soft_clamp_input_value": ((None,), "clamp x"),
    "cosine_sim_project_in": ((False,), "normalise x, or set spherical"),
    "cosine_sim_project_in_scale": ((None,), "normalise x, or set spherical"),
    "experimental_softplus_entropy_loss": ((False,), "add a constant to the loss"),
    "entropy_loss_offset": ((5,), "add a constant to the loss"),
    "force_quantization_f32": ((True,), "entropies are in fp32 at least"),
    "orthogonal_rotation": ((False,), "rotate x yourself"),
}


class LFQResult(NamedTuple):
    quantized: Tensor
    indices: Tensor
    entropy_aux_loss: Tensor


# Exported programs that return it can be saved.
torch.utils._pytree._register_namedtuple(LFQResult, serialized_type_name="nsvq.quantizers.lfq.LFQResult")


class LFQBreakdown(NamedTuple):
    """The unweighted terms of LFQ's loss, scalars."""

    per_sample_entropy: Tensor
    batch_entropy: Tensor
    commitment: Tensor


class LFQ(Quantizer):
    """Lookup-free quantization: a code is the signs of a latent (docs/quantizers.md, "lfq").

    In training the loss is commitment_loss_weight |z - sg c|^2 + entropy_loss_weight (mean H(p_i) - diversity_gamma
    H(mean p_i)), p_i = softmax_c(2 inv_temperature z_i . c) over all codes; they are never listed. Entropies are of this
    rank's latents.
    """

    def __init__(self, *, dim: Optional[int] = None, codebook_size: Optional[int] = None, entropy_loss_weight: float = 0.1,
                 commitment_loss_weight: float = 0.0, diversity_gamma: float = 1.0, num_codebooks: int = 1,
                 keep_num_codebooks_dim: Optional[bool] = None, projection_has_bias: bool = True,
                 channel_first: Optional[bool] = None, spherical: bool = False, msb_first: bool = False, **others: Any) -> None:
        """codebook_size: a power of 2, by default 2^dim; channel_first None: from 4 dimensions on; spherical: latents of
        length 1 and codes of +-1 / sqrt(bits); msb_first: the first channel is the highest bit of an index, as in
        vector-quantize-pytorch, not the lowest."""
        refuse("LFQ", others, _REFUSED, LFQ.__init__)
        if dim is None and codebook_size is None:
            raise ValueError("LFQ: give dim, codebook_size or both")
        if dim is not None:
            check_count("LFQ", "dim", dim)
        bits = dim if codebook_size is None else check_count("LFQ", "codebook_size", codebook_size, 2).bit_length() - 1
        if bits > _MOST_BITS or (codebook_size is not None and codebook_size != 1 << bits):
            raise ValueError(f"LFQ: codebook_size must be a power of 2, at most 2^{_MOST_BITS}, but it is "
                             f"{codebook_size or f'2^{bits}'}")
        inner = bits * check_count("LFQ", "num_codebooks", num_codebooks)
        super().__init__(inner if dim is None else dim, channel_first)
        self.codebook_size, self.codebook_dim, self.num_codebooks = 1 << bits, bits, num_codebooks
        self._keeps_codebooks = num_codebooks > 1 if keep_num_codebooks_dim is None else keep_num_codebooks_dim
        if num_codebooks > 1 and not self._keeps_codebooks:
            raise ValueError("LFQ: keep_num_codebooks_dim must be True with several codebooks, whose indices it holds")
        self.project_in, self.project_out = projections(self.dim, inner, bias=projection_has_bias)
        self.entropy_loss_weight, self.diversity_gamma = entropy_loss_weight, diversity_gamma
        self.commitment_loss_weight, self.spherical = commitment_loss_weight, spherical
        self.magnitude = 1 / math.sqrt(bits) if spherical else 1.0
        weights = 1 << torch.arange(bits)
        self.register_buffer("_weights", weights.flip(0) if msb_first else weights, persistent=False)
        self._start_counting(self.codebook_size)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        state.pop(prefix + "mask", None)  # in checkpoints of vector-quantize-pytorch: the weights of the bits
        super()._load_from_state_dict(state, prefix, *rest)

    def forward(self, x: Tensor, inv_temperature: float = 100.0, return_loss_breakdown: bool = False,
                mask: Optional[Tensor] = None) -> Union[LFQResult, tuple[LFQResult, LFQBreakdown]]:
        """x [..., dim], [B, dim, H, W] or [B, dim, ...] to quantized latents like x, indices [...] int64 and the loss, which
        is 0 in evaluation. Several codebooks give indices [..., num_codebooks]. mask: booleans [...] of latents that count."""
        last = self._channels_last(x)
        mask = self._mask_of(last, mask)
        if mask is not None:
            last = torch.where(mask.unsqueeze(-1), last, 0)  # padding may hold anything
        z = at_least_fp32(self.project_in(last)).unflatten(-1, (self.num_codebooks, self.codebook_dim))
        check_finite("LFQ", z)
        if self.spherical:
            z = F.normalize(z, dim=-1)
        positive = z.detach() > 0
        codes = torch.where(positive, self.magnitude, -self.magnitude).to(z.dtype)
        indices = (positive * self._weights).sum(-1)
        counted = None if mask is None else mask.flatten()
        breakdown = self._terms(z.flatten(0, -3), codes.flatten(0, -3), counted, inv_temperature)
        if self.training:
            known = indices if mask is None else indices.masked_fill(~mask.unsqueeze(-1), self.codebook_size)
            self._counts.add_(torch.ops.nsvq.code_usage(known, self.codebook_size + (mask is not None))[:self.codebook_size])
            codes = codes + (z - z.detach())
        quantized = self.project_out(codes.flatten(-2).to(x.dtype))
        if mask is not None:
            quantized, indices = torch.where(mask.unsqueeze(-1), quantized, 0), indices.masked_fill(~mask.unsqueeze(-1), -1)
        entropy = breakdown.per_sample_entropy - self.diversity_gamma * breakdown.batch_entropy
        loss = self.entropy_loss_weight * entropy + self.commitment_loss_weight * breakdown.commitment
        result = LFQResult(self._channels_back(quantized), indices if self._keeps_codebooks else indices.squeeze(-1), loss)
        return (result, breakdown) if return_loss_breakdown else result

    def _terms(self, z: Tensor, codes: Tensor, counted: Optional[Tensor], inv_temperature: float) -> LFQBreakdown:
        """Of latents and codes [N, num_codebooks, bits], those that count [N] or all."""
        zero = z.new_zeros(())
        if not self.training:
            return LFQBreakdown(zero, zero, zero)
        weights = z.new_ones(len(z)) if counted is None else counted.to(z.dtype)
        weights = weights / weights.sum().clamp_min(1)
        commitment = ((z - codes).square().mean((1, 2)) * weights).sum()
        if self.entropy_loss_weight == 0:
            return LFQBreakdown(zero, zero, commitment)
        logits = z * (4 * self.magnitude * inv_temperature)
        size = logits.abs()  # H(sigmoid(x)) = log(1 + exp(-|x|)) + |x| sigmoid(-|x|)
        sample = ((F.softplus(-size) + size * (-size).sigmoid()).sum(2).mean(1) * weights).sum()
        with without_autocast(z):
            batch = torch.stack([batch_entropy(one, weights) for one in logits.unbind(1)]).mean()
        return LFQBreakdown(sample, batch, commitment)

    def get_codes_from_indices(self, indices: Tensor) -> Tensor:
        """Codes [..., bits] of indices [...]."""
        positive = indices.unsqueeze(-1).bitwise_and(self._weights) != 0
        return torch.where(positive, self.magnitude, -self.magnitude)

    def indices_to_codes(self, indices: Tensor, project_out: bool = True) -> Tensor:
        """Quantized latents, in the layout of x, of indices that forward gave; without project_out the codes."""
        known = (indices >= 0) if not self._keeps_codebooks else (indices >= 0).all(-1)
        codes = self.get_codes_from_indices(indices)
        codes = codes.flatten(-2) if self._keeps_codebooks else codes
        with without_autocast(codes):
            codes = self.project_out(codes) if project_out else codes
        return self._channels_back(codes.masked_fill(~known.unsqueeze(-1), 0))

    def get_output_from_indices(self, indices: Tensor) -> Tensor:
        """indices_to_codes, by the name that the other modules have."""
        return self.indices_to_codes(indices)


def batch_entropy(logits: Tensor, weights: Tensor) -> Tensor:
    """-sum_j P_j log(P_j + 1e-5) with P the weighted mean over rows [N] of the probabilities of all 2^bits codes, whose bits
    are independent with logits [N, bits]. P is a product of the probabilities of the lower and the upper half of the bits.
    """
    bits = logits.shape[1]
    low, high = ((bits + 1) // 2, bits // 2)
    lower, upper = half_probabilities(logits[:, :low]), half_probabilities(logits[:, low:low + high])
    mean = (upper * weights.unsqueeze(1)).t() @ lower  # [2^high, 2^low]
    return -(mean * (mean + 1e-5).log()).sum()


def half_probabilities(logits: Tensor) -> Tensor:
    """The probabilities [N, 2^h] of all values of h bits with logits [N, h]."""
    result = logits.new_ones(len(logits), 1)
    for bit in logits.split(1, 1):  # products, not sums of logarithms: those would need more digits than TF32 has
        result = torch.cat([result * (-bit).sigmoid(), result * bit.sigmoid()], 1)
    return result
