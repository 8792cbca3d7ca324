"""VectorQuantize, with the arguments of vector-quantize-pytorch 1.32, and EMA."""

from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor

from nsvq.quantizers._arguments import check_count, check_number, refuse
from nsvq.quantizers._assign import ROTATION, STRAIGHT, TO_CODES, after, assign, search, search_sampled, unit
from nsvq.quantizers._codebook import Codebook, statistics
from nsvq.quantizers._extras import orthogonality, reparametrised
from nsvq.quantizers._layout import IMAGES, VOLUMES, Quantizer, at_least_fp32, projections

_REFUSED = {
    "commitment_use_cross_entropy_loss": ((False,), "nsvq.IBQ has a gradient for every code"),
    "codebook_diversity_loss_weight": ((0,), "nsvq.NSVQ moves unused codes, nsvq.IBQ and nsvq.LFQ have entropy terms"),
    "codebook_diversity_temperature": ((100,), "nsvq.IBQ and nsvq.LFQ have entropy terms"),
    "straight_through": ((False,), "nsvq.IBQ passes gradients through a softmax; rotation_trick=False copies them"),
    "sync_affine_param": ((False,), "the program trains quantizer.type=affine"),
    "affine_param": ((False,), "the program trains quantizer.type=affine"),
    "affine_param_batch_decay": ((0.99,), "the program trains quantizer.type=affine"),
    "affine_param_codebook_decay": ((0.9,), "the program trains quantizer.type=affine"),
    "vq_bridge": ((None,), "the program trains quantizer.type=fvq; nsvq.SimVQ takes any codebook_transform"),
    "in_place_codebook_optimizer": ((None,), "set learnable_codebook=True and give parameters() to your optimizer"),
    "manual_in_place_optimizer_update": ((False,), "set learnable_codebook=True and give parameters() to your optimizer"),
    "sync_update_v": ((0,), "nsvq.NSVQ lets codes follow the latents"),
}
_REFUSED_IN_FORWARD = {
    "indices": ((None,), "use get_codes_from_indices and a loss of your own"),
    "topk": ((None,), "nsvq.nearest(x, codes, k) finds several codes"),
    "sample_codebook_temp": ((None,), "give it to the constructor"),
    "codebook_transform_fn": ((None,), "nsvq.SimVQ takes a codebook_transform"),
    "ema_update_weight": ((None,), "set decay"),
    "accum_ema_update": ((False,), "give all latents of a step to one call"),
    "ema_update": ((None,), "give it to the constructor, or freeze_codebook to the call"),
}


class LossBreakdown(NamedTuple):
    """The unweighted terms of VectorQuantize's loss, scalars."""

    commitment: Tensor
    codebook_diversity: Tensor  # 0
    orthogonal_reg: Tensor
    inplace_optimize: Tensor  # 0


class VectorQuantize(Quantizer):
    """The nearest code of each latent, exact and without the N x K matrix. docs/python.md lists the arguments.

    The codes are running means of their latents (EMA) unless `learnable_codebook` makes them a parameter. `state_dict`
    has the names and shapes of vector-quantize-pytorch.
    """

    def __init__(self, dim: int, codebook_size: int, codebook_dim: Optional[int] = None, heads: int = 1,
                 separate_codebook_per_head: bool = False, decay: float = 0.8, eps: float = 1e-5, freeze_codebook: bool = False,
                 kmeans_init: bool = False, kmeans_iters: int = 10, sync_kmeans: bool = True, use_cosine_sim: bool = False,
                 layernorm_after_project_in: bool = False, threshold_ema_dead_code: float = 0, channel_last: bool = True,
                 accept_image_fmap: bool = False, accept_3d_fmap: bool = False, commitment_weight: float = 1.0,
                 orthogonal_reg_weight: float = 0.0, orthogonal_reg_active_codes_only: bool = False,
                 orthogonal_reg_max_codes: Optional[int] = None, stochastic_sample_codes: bool = False,
                 sample_codebook_temp: float = 1.0, rotation_trick: Optional[bool] = None, directional_reparam: bool = False,
                 directional_reparam_variance: float = 5e-3, sync_codebook: Optional[bool] = None,
                 ema_update: Optional[bool] = None, manual_ema_update: bool = False, learnable_codebook: Optional[bool] = None,
                 return_zeros_for_masked_padding: bool = True, route_gradients_to_input: bool = True, **others: Any) -> None:
        """dim: channels of x; codebook_dim: channels of a code; x has heads * codebook_dim channels after project_in."""
        owner = type(self).__name__
        refuse(owner, others, _REFUSED, type(self).__init__)
        for name, value in (("dim", dim), ("codebook_size", codebook_size), ("heads", heads)):
            check_count(owner, name, value)
        check_number(owner, "decay", decay, 0, 1)
        learnable = directional_reparam if learnable_codebook is None else learnable_codebook
        follows = not directional_reparam if ema_update is None else ema_update
        if learnable and follows:
            raise ValueError(f"{owner}: learnable_codebook needs ema_update=False: one of them moves the codes")
        if learnable and use_cosine_sim:
            raise ValueError(f"{owner}: learnable_codebook and use_cosine_sim do not go together; nsvq.NSVQ has both (cosine)")
        if rotation_trick and directional_reparam:
            raise ValueError(f"{owner}: rotation_trick and directional_reparam are two ways for one gradient; set one")
        dimensions = IMAGES if accept_image_fmap else VOLUMES if accept_3d_fmap else None
        super().__init__(dim, bool(dimensions) or not channel_last, dimensions)

        inner = dim if codebook_dim is None else check_count(owner, "codebook_dim", codebook_dim)
        self.codebook_size, self.codebook_dim, self.heads = codebook_size, inner, heads
        self.separate_codebook_per_head = separate_codebook_per_head
        self.project_in, self.project_out = projections(dim, inner * heads, layernorm_after_project_in)
        self.has_projections = dim != inner * heads
        self.freeze_codebook, self.ema_update, self.manual_ema_update = freeze_codebook, follows, manual_ema_update
        self.learnable_codebook, self.use_cosine_sim = learnable, use_cosine_sim
        self.commitment_weight = 0.0 if directional_reparam else commitment_weight
        self.orthogonal_reg_weight = orthogonal_reg_weight
        self.orthogonal_reg_active_codes_only = orthogonal_reg_active_codes_only
        self.orthogonal_reg_max_codes = orthogonal_reg_max_codes
        self.sample_codebook_temp = sample_codebook_temp if stochastic_sample_codes else 0.0
        self.rotation_trick = not directional_reparam and dim > 1 if rotation_trick is None else rotation_trick
        self.directional_reparam, self.directional_reparam_variance = directional_reparam, directional_reparam_variance
        self.return_zeros_for_masked_padding = return_zeros_for_masked_padding
        self.route_gradients_to_input = route_gradients_to_input
        if orthogonal_reg_active_codes_only and separate_codebook_per_head and heads > 1:
            raise ValueError(f"{owner}: orthogonal_reg_active_codes_only needs one codebook; set "
                             "separate_codebook_per_head=False")

        codebooks = heads if separate_codebook_per_head else 1
        iterations = check_count(owner, "kmeans_iters", kmeans_iters) if kmeans_init else 0
        self._codebook = Codebook(codebooks, codebook_size, inner, learnable=learnable or orthogonal_reg_weight > 0,
                                  cosine=use_cosine_sim, kmeans_iters=iterations, sync_kmeans=sync_kmeans, decay=decay, eps=eps,
                                  threshold=check_number(owner, "threshold_ema_dead_code", threshold_ema_dead_code, 0),
                                  sync=sync_codebook)
        self._start_counting(*((codebooks,) if codebooks > 1 else ()), codebook_size)

    @property
    def codebook(self) -> Tensor:
        """The codes [K, d], with separate_codebook_per_head [heads, K, d]. Assigning sets them and their running means."""
        embed = self._codebook.embed
        return embed if self.separate_codebook_per_head else embed[0]

    @codebook.setter
    def codebook(self, codes: Tensor) -> None:
        if codes.shape != self.codebook.shape:
            raise ValueError(f"{type(self).__name__}: codebook must be {list(self.codebook.shape)}, but it is {list(codes.shape)}")
        self._codebook.set_codes(codes if self.separate_codebook_per_head else codes.unsqueeze(0))

    def forward(self, x: Tensor, indices: None = None, mask: Optional[Tensor] = None, lens: Optional[Tensor] = None, *,
                freeze_codebook: Optional[bool] = None, return_loss_breakdown: bool = False, active: Optional[Tensor] = None,
                **others: Any) -> Union[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor, LossBreakdown]]:
        """x [..., dim] (accept_image_fmap: [B, dim, H, W]) to quantized latents like x, indices [...] int64 and the loss.

        Several heads give indices [..., heads]. mask: booleans [...]; latents outside it get index -1 and zeros, and count
        nowhere. lens [B]: a mask of the first latents of x [B, N, dim]. The loss is a scalar, 0 in evaluation. active: a
        boolean scalar tensor; where it is false the codebook stays.
        """
        if others or indices is not None:
            refuse(type(self).__name__, {**others, "indices": indices}, _REFUSED_IN_FORWARD, type(self).forward)
        last = self._channels_last(x)
        mask = self._mask_of(last, mask, lens)
        codebook = self._codebook  # read once, as `embed` is: a module's __getattr__ takes a microsecond
        embed = codebook.embed
        rows, counted = self._rows(last, embed, mask)
        if not codebook.started:
            self._start(rows, counted)
        shape = last.shape[:-1]
        if self.training:
            frozen = self.freeze_codebook if freeze_codebook is None else freeze_codebook
            found = [self._choose(own, codes, counted, frozen)
                     for own, codes in zip(rows, embed.unbind(0) if len(rows) > 1 else (embed[0],))]
            self._learn(rows, found, counted, not frozen, active)
            quantized = found[0][0] if len(found) == 1 else torch.cat([one[0] for one in found], 1)
            quantized = quantized.reshape(*shape, self.heads * self.codebook_dim)
            chosen = found[0][1] if len(found) == 1 else torch.stack([one[1] for one in found], 1)
            loss, terms = self._losses([one[2] for one in found], embed, chosen, counted)
            chosen = chosen.view(*shape) if self.heads == 1 else chosen.view(*shape, self.heads)
        else:
            quantized, chosen = self._look_up(rows, embed, shape)
            loss = embed.new_zeros(())
            terms = LossBreakdown(loss, loss, loss, loss) if return_loss_breakdown else None
        if quantized.dtype is not x.dtype:
            quantized = quantized.to(x.dtype)
        if self.has_projections:
            quantized = self.project_out(quantized)
        if mask is not None:
            padding = torch.zeros_like(last) if self.return_zeros_for_masked_padding else last
            quantized = torch.where(mask.unsqueeze(-1), quantized, padding)
            chosen = chosen.masked_fill(~(mask if self.heads == 1 else mask.unsqueeze(-1)), -1)
        quantized = self._channels_back(quantized)
        return (quantized, chosen, loss, terms) if return_loss_breakdown else (quantized, chosen, loss)

    def _rows(self, last: Tensor, embed: Tensor, mask: Optional[Tensor]) -> tuple[list[Tensor], Optional[Tensor]]:
        """Each codebook's rows [N, d], at least fp32, and which of them count [N] or None."""
        heads, counted = embed.shape[0], mask
        if mask is not None:
            last = torch.where(mask.unsqueeze(-1), last, 0)  # padding may hold anything
            counted = mask.reshape(-1)
            if heads < self.heads:
                counted = counted.repeat_interleave(self.heads)
        x = at_least_fp32(self.project_in(last) if self.has_projections else last)
        if embed.dtype is torch.float64:
            x = x.double()
        rows = list(x.reshape(-1, heads, self.codebook_dim).unbind(1)) if heads > 1 else [x.reshape(-1, self.codebook_dim)]
        return ([unit(own) for own in rows] if self.use_cosine_sim else rows), counted

    def _start(self, rows: list[Tensor], counted: Optional[Tensor]) -> None:
        if not self.training:
            raise ValueError(f"{type(self).__name__}: the codebook is empty, kmeans_init sets it in the first training step; "
                             "train, load a state_dict or assign to `codebook` first")
        self._codebook.start(rows, counted)

    def _look_up(self, rows: list[Tensor], embed: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor]:
        """In evaluation: codes [*shape, heads * codebook_dim] and indices [*shape] or [*shape, heads]."""
        if embed.dtype is not rows[0].dtype:
            embed = embed.to(rows[0].dtype)
        if len(rows) > 1:
            chosen = torch.stack([search(own, codes)[0] for own, codes in zip(rows, embed.unbind(0))], 1)
            codes = torch.cat([one.index_select(0, own) for one, own in zip(embed.unbind(0), chosen.unbind(1))], 1)
            return codes.view(*shape, codes.shape[1]), chosen.view(*shape, len(rows))
        codes = embed[0]
        chosen = search(rows[0], codes)[0]
        if self.heads == 1:
            chosen = chosen.view(*shape)
            return torch.embedding(codes, chosen), chosen
        chosen = chosen.view(*shape, self.heads)
        return torch.embedding(codes, chosen).flatten(-2), chosen

    def _choose(self, rows: Tensor, embed: Tensor, counted: Optional[Tensor],
                frozen: bool) -> tuple[Tensor, Tensor, Tensor]:
        """In training: codes [N, d] with gradients, indices [N], and the mean squared distance."""
        if embed.dtype is not rows.dtype:
            embed = embed.to(rows.dtype)
        distances: Optional[Tensor] = None
        if self.sample_codebook_temp > 0:
            indices = search_sampled(rows, embed, self.sample_codebook_temp)
        else:
            indices, distances = search(rows, embed)
        learns = self.learnable_codebook and not frozen
        routed = rows.requires_grad and self.route_gradients_to_input
        through = TO_CODES if self.directional_reparam or not routed else ROTATION if self.rotation_trick else STRAIGHT
        codes, mean = assign(rows, embed if learns else embed.detach(), indices, distances, counted, through=through,
                             to_codes=1.0 if learns else 0.0)
        if routed and self.directional_reparam:
            codes = reparametrised(rows, codes, self.directional_reparam_variance)
        return codes, indices, mean

    def _learn(self, rows: list[Tensor], found: list[tuple[Tensor, Tensor, Tensor]], counted: Optional[Tensor],
               moves: bool, active: Optional[Tensor]) -> None:
        """Counts the codes that were found, and moves them by their running means and to latents."""
        indices = [one[1] for one in found]
        codebook = self._codebook
        replaces = codebook.threshold > 0
        if not moves or not (self.ema_update or replaces):
            for head, own in enumerate(indices):
                own = own if counted is None else own.masked_fill(~counted, self.codebook_size)
                usage = torch.ops.nsvq.code_usage(own, self.codebook_size + (counted is not None))[:self.codebook_size]
                (self._counts[head] if len(indices) > 1 else self._counts).add_(usage)
            return
        counts, sums = statistics(rows, indices, self.codebook_size, counted)
        counts = after(counts, [one[0] for one in found])
        self._counts.add_(counts if len(indices) > 1 else counts[0])
        codebook.observe(counts, sums, active)
        if self.manual_ema_update:
            return
        if self.ema_update:
            codebook.follow(active)
        if replaces:
            codebook.replace_unused(rows, counted, active)

    def update_ema(self) -> None:
        """Sets the codes to their running means: what a training step does unless `manual_ema_update` is set."""
        self._codebook.follow()

    def expire_codes_(self, x: Tensor) -> None:
        """Replaces codes of too small a running count by rows of x [..., heads * codebook_dim], as a training step does."""
        if self.training and self._codebook.threshold > 0:
            heads = len(self._codebook.embed)
            rows = at_least_fp32(x).reshape(-1, heads, self.codebook_dim).unbind(1)
            self._codebook.replace_unused([unit(own) for own in rows] if self.use_cosine_sim else rows, None)

    def _losses(self, means: list[Tensor], embed: Tensor, chosen: Tensor,
                counted: Optional[Tensor]) -> tuple[Tensor, LossBreakdown]:
        """In training: the loss and its terms, of the heads' mean squared distances."""
        zero = embed.new_zeros(())
        commitment = means[0] if len(means) == 1 else torch.stack(means).mean()
        loss = commitment if self.commitment_weight == 1 else commitment * self.commitment_weight
        if not self.orthogonal_reg_weight > 0:
            return loss, LossBreakdown(commitment, zero, zero, zero)
        used = None
        if self.orthogonal_reg_active_codes_only:
            index = chosen if counted is None else chosen.masked_fill(~counted, self.codebook_size)
            used = torch.ops.nsvq.code_usage(index, self.codebook_size + 1)[:-1] > 0
        orthogonal = orthogonality(embed, used, self.orthogonal_reg_max_codes)
        return loss + orthogonal * self.orthogonal_reg_weight, LossBreakdown(commitment, zero, orthogonal, zero)

    def get_codes_from_indices(self, indices: Tensor) -> Tensor:
        """Codes [..., heads * codebook_dim] of indices [...] (several heads: [..., heads]), zeros for -1.

        With channels first (accept_image_fmap) the channels become dimension 1.
        """
        known = indices.clamp_min(0)
        if len(self._codebook.embed) > 1:
            codes = torch.stack([embed[one] for embed, one in zip(self._codebook.embed, known.unbind(-1))], -2)
        else:
            codes = self._codebook.embed[0][known]
        codes = codes.masked_fill((indices < 0).unsqueeze(-1), 0)
        return self._channels_back(codes.flatten(-2) if self.heads > 1 else codes)

    def get_output_from_indices(self, indices: Tensor) -> Tensor:
        """Quantized latents, in the layout of x, of indices that forward gave."""
        codes = self.get_codes_from_indices(indices)
        if not self.has_projections:
            return codes
        last = codes.movedim(1, -1) if self._moves(codes.dim()) else codes
        output = self.project_out(last)
        known = indices >= 0 if self.heads == 1 else (indices >= 0).all(-1)
        return self._channels_back(output.masked_fill(~known.unsqueeze(-1), 0))


class EMA(VectorQuantize):
    """VQ-VAE's codes as running means, with the defaults of the program's quantizer `ema`; others as VectorQuantize.

    Codes start as N(0, 1), gradients pass unchanged, the loss is beta times the commitment.
    """

    def __init__(self, dim: int, codebook_size: int, decay: float = 0.99, smoothing: float = 1e-5, beta: float = 0.25,
                 rotation_trick: bool = False, **others: Any) -> None:
        """smoothing: added to each running count."""
        super().__init__(dim, codebook_size, decay=decay, eps=smoothing, commitment_weight=beta, rotation_trick=rotation_trick,
                         **others)
        if not others.get("kmeans_init"):
            self._codebook.set_codes(torch.randn_like(self._codebook.embed))
