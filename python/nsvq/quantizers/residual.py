"""Quantizers of what others leave: ResidualVQ, GroupedResidualVQ and ResidualSimVQ."""

from typing import Any, Optional, Sequence, Union

import torch
from torch import Tensor, nn

from nsvq.quantizers import _ranks
from nsvq.quantizers._arguments import check_count, refuse
from nsvq.quantizers._extras import reparametrised
from nsvq.quantizers._layout import projections
from nsvq.quantizers.simvq import SimVQ
from nsvq.quantizers.vector_quantize import VectorQuantize

_REFUSED = {
    "implicit_neural_codebook": ((False,), "nsvq.ResidualSimVQ maps its codebooks"),
    "mlp_kwargs": ((None,), "nsvq.ResidualSimVQ maps its codebooks"),
    "beam_size": ((None,), "each quantizer takes its nearest code"),
    "eval_beam_size": ((None,), "each quantizer takes its nearest code"),
    "beam_score_quantizer_weights": ((None,), "each quantizer takes its nearest code"),
    "heads": ((1,), "nsvq.GroupedResidualVQ splits the channels"),
}
_REFUSED_IN_FORWARD = {
    "indices": ((None,), "use get_codes_from_indices and a loss of your own"),
    "sample_codebook_temp": ((None,), "give it to the constructor"),
    "beam_size": ((None,), "each quantizer takes its nearest code"),
    "rand_quantize_dropout_fixed_seed": ((None,), "set torch.manual_seed"),
}


class _Residual(nn.Module):
    """A base: `layers`, each of which quantizes what those before it left."""

    layers: nn.ModuleList
    num_quantizers: int
    _layers_learn = False  # whether they move their codes in forward, and have an argument `active`

    def _set_dropout(self, dropout: bool, cutoff: int, multiple: int) -> None:
        owner = type(self).__name__
        self.quantize_dropout = dropout and self.num_quantizers > 1
        self.quantize_dropout_cutoff_index = check_count(owner, "quantize_dropout_cutoff_index", cutoff, 0)
        self.quantize_dropout_multiple_of = check_count(owner, "quantize_dropout_multiple_of", multiple)
        if cutoff >= self.num_quantizers:
            raise ValueError(f"{owner}: quantize_dropout_cutoff_index must be below num_quantizers, which is {self.num_quantizers}")

    def _draw_last(self, device: torch.device) -> Optional[Tensor]:
        """The number of the last layer that is used, a scalar on the device and equal on all ranks; None: all are."""
        if not (self.training and self.quantize_dropout):
            return None
        last = torch.randint(self.quantize_dropout_cutoff_index, self.num_quantizers, (), device=device)
        if _ranks.several():
            last = _ranks.of_first_rank(last)
        multiple = self.quantize_dropout_multiple_of
        return (last // multiple + 1) * multiple - 1

    def _run(self, x: Tensor, last: Optional[Tensor], gradient_share: float, **options: Any
             ) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        """The sum of the layers' codes, indices [..., q], losses [q], and what each layer was given."""
        residual, total, indices, losses, inputs = x, torch.zeros_like(x), [], [], []
        for number, layer in enumerate(self.layers):
            inputs.append(residual)
            if last is None:
                codes, chosen, loss = layer(residual, **options)
            else:
                active = number <= last
                codes, chosen, loss = layer(residual, **options, **({"active": active} if self._layers_learn else {}))
                codes, chosen, loss = torch.where(active, codes, 0), torch.where(active, chosen, -1), torch.where(active, loss, 0)
            fixed = codes.detach()
            residual = residual - (fixed if gradient_share == 0 else fixed.lerp(codes, gradient_share))
            total = total + codes
            indices.append(chosen)
            losses.append(loss)
        return total, torch.stack(indices, -1), torch.stack(losses), inputs

    def get_codes_from_indices(self, indices: Tensor) -> Tensor:
        """Codes [q, ...] like the input, of indices [..., q] or of the first quantizers alone; zeros for -1."""
        if indices.shape[-1] > self.num_quantizers:
            raise ValueError(f"{type(self).__name__}: indices have {indices.shape[-1]} quantizers, but there are "
                             f"{self.num_quantizers}")
        codes = [layer.get_codes_from_indices(one) for layer, one in zip(self.layers, indices.unbind(-1))]
        codes += [torch.zeros_like(codes[0])] * (self.num_quantizers - len(codes))
        return torch.stack(codes)


class ResidualVQ(_Residual):
    """Quantizers in a row, each of what is left of the latents. Arguments besides these are VectorQuantize's."""

    _layers_learn = True

    def __init__(self, *, dim: int, num_quantizers: Optional[int] = None, codebook_size: Union[int, Sequence[int]],
                 codebook_dim: Optional[int] = None, shared_codebook: bool = False, diveq: bool = False,
                 quantize_dropout: bool = False, quantize_dropout_cutoff_index: int = 0, quantize_dropout_multiple_of: int = 1,
                 accept_image_fmap: bool = False, quant_grad_frac: float = 0.0, **vq_options: Any) -> None:
        """codebook_size: one for all or one each; quantize_dropout: in training a random number of quantizers after the
        one at the cutoff index are left out; quant_grad_frac: share of a code's gradient that reaches the next layers."""
        refused = {name: value for name, value in vq_options.items() if name in _REFUSED}
        refuse("ResidualVQ", refused, _REFUSED, ResidualVQ.__init__)
        vq_options = {name: value for name, value in vq_options.items() if name not in _REFUSED}
        super().__init__()
        if num_quantizers is None and isinstance(codebook_size, int):
            raise ValueError("ResidualVQ: give num_quantizers, or a codebook_size for each")
        sizes = [codebook_size] * (num_quantizers or 0) if isinstance(codebook_size, int) else list(codebook_size)
        self.num_quantizers = check_count("ResidualVQ", "num_quantizers", len(sizes) if num_quantizers is None else num_quantizers)
        if len(sizes) != self.num_quantizers or (shared_codebook and len(set(sizes)) > 1):
            raise ValueError(f"ResidualVQ: codebook_size must be one number or {self.num_quantizers}, equal ones with "
                             f"shared_codebook, but it is {codebook_size}")
        if diveq:
            vq_options.update(ema_update=False, learnable_codebook=True, route_gradients_to_input=False, commitment_weight=0.0)
        if shared_codebook:
            vq_options.update(manual_ema_update=True)
        self.codebook_dim = dim if codebook_dim is None else codebook_dim
        self.project_in, self.project_out = projections(dim, self.codebook_dim)
        self.dim, self.codebook_sizes = dim, tuple(sizes)
        first = accept_image_fmap or vq_options.get("accept_3d_fmap") or not vq_options.get("channel_last", True)
        self._axis = 1 if first else -1  # of the channels
        self.shared_codebook, self.diveq = shared_codebook, diveq
        self.quant_grad_frac = 1.0 if diveq else quant_grad_frac
        self.layers = nn.ModuleList(VectorQuantize(self.codebook_dim, size, accept_image_fmap=accept_image_fmap, **vq_options)
                                    for size in sizes)
        if shared_codebook:
            for layer in self.layers[1:]:
                layer._codebook = self.layers[0]._codebook
        self._set_dropout(quantize_dropout, quantize_dropout_cutoff_index, quantize_dropout_multiple_of)

    @property
    def codebook_size(self) -> int:
        """Codes of the first quantizer."""
        return self.codebook_sizes[0]

    @property
    def codebooks(self) -> Union[Tensor, tuple[Tensor, ...]]:
        """The codes [q, K, d]; of unequal sizes a tuple of [K, d]."""
        codebooks = tuple(layer.codebook for layer in self.layers)
        return torch.stack(codebooks) if len(set(self.codebook_sizes)) == 1 else codebooks

    def forward(self, x: Tensor, mask: Optional[Tensor] = None, return_all_codes: bool = False,
                freeze_codebook: Optional[bool] = None, last: Optional[Tensor] = None, **others: Any) -> tuple[Tensor, ...]:
        """x [..., dim] or [B, dim, H, W] to quantized latents like x, indices [..., q] int64, losses [q], and with
        return_all_codes the codes [q, ...] of all quantizers. Quantizers that dropout leaves out have index -1 and loss 0.

        mask: booleans [...] of latents that count. last: number of the last quantizer that is used, a scalar tensor.
        """
        refuse("ResidualVQ", others, _REFUSED_IN_FORWARD, ResidualVQ.forward)
        inner = x if mask is None else torch.where(mask.unsqueeze(self._axis), x, 0)  # padding may hold anything
        inner = self._project(self.project_in, inner)
        last = self._draw_last(x.device) if last is None else last
        total, indices, losses, inputs = self._run(inner, last, self.quant_grad_frac, mask=mask, freeze_codebook=freeze_codebook)
        if self.training and self.shared_codebook:
            self._update_shared(inputs, freeze_codebook)
        if self.diveq and self.training and x.requires_grad:
            total = reparametrised(inner.movedim(self._axis, -1), total.movedim(self._axis, -1)).movedim(-1, self._axis)
        quantized = self._project(self.project_out, total)
        if mask is not None:
            padding = torch.zeros_like(x) if self.layers[0].return_zeros_for_masked_padding else x
            quantized = torch.where(mask.unsqueeze(self._axis), quantized, padding)
        if return_all_codes:
            return quantized, indices, losses, self.get_codes_from_indices(indices)
        return quantized, indices, losses

    def _project(self, projection: nn.Module, x: Tensor) -> Tensor:
        if isinstance(projection, nn.Identity) or self._axis == -1:
            return projection(x)
        return projection(x.movedim(1, -1)).movedim(-1, 1)

    def _update_shared(self, inputs: list[Tensor], freeze_codebook: Optional[bool]) -> None:
        first = self.layers[0]
        if freeze_codebook or (freeze_codebook is None and first.freeze_codebook):
            return
        if first.ema_update:
            first.update_ema()
        if first._codebook.threshold > 0:
            first.expire_codes_(torch.stack([one.detach().movedim(self._axis, -1) for one in inputs]))

    def get_output_from_indices(self, indices: Tensor) -> Tensor:
        """Quantized latents, in the layout of x, of indices [..., q] or of the first quantizers alone."""
        return self._project(self.project_out, self.get_codes_from_indices(indices).sum(0))


class GroupedResidualVQ(nn.Module):
    """A ResidualVQ for each of `groups` equal parts of the channels. Arguments besides these are ResidualVQ's."""

    def __init__(self, *, dim: int, groups: int = 1, accept_image_fmap: bool = False, **options: Any) -> None:
        super().__init__()
        if dim % check_count("GroupedResidualVQ", "groups", groups):
            raise ValueError(f"GroupedResidualVQ: groups is {groups}, which does not divide dim {dim}")
        self.dim, self.groups, self.accept_image_fmap = dim, groups, accept_image_fmap
        self.rvqs = nn.ModuleList(ResidualVQ(dim=dim // groups, accept_image_fmap=accept_image_fmap, **options)
                                  for _ in range(groups))

    @property
    def codebooks(self) -> Tensor:
        """The codes [groups, q, K, d]."""
        return torch.stack([one.codebooks for one in self.rvqs])

    def forward(self, x: Tensor, return_all_codes: bool = False, freeze_codebook: Optional[bool] = None,
                mask: Optional[Tensor] = None, **others: Any) -> tuple[Tensor, ...]:
        """x [..., dim] or [B, dim, H, W] to quantized latents like x, indices [groups, ..., q], losses [groups, q], and with
        return_all_codes the codes [groups, q, ...]. Dropout leaves out the same quantizers in each group."""
        refuse("GroupedResidualVQ", others, _REFUSED_IN_FORWARD, GroupedResidualVQ.forward)
        axis = 1 if self.accept_image_fmap else -1
        if x.shape[axis] != self.dim:
            raise ValueError(f"GroupedResidualVQ: x must have {self.dim} channels, but it is {list(x.shape)}")
        last = self.rvqs[0]._draw_last(x.device)
        found = [one(part, mask=mask, return_all_codes=return_all_codes, freeze_codebook=freeze_codebook, last=last)
                 for one, part in zip(self.rvqs, x.chunk(self.groups, axis))]
        quantized, *rest = zip(*found)
        return (torch.cat(quantized, axis), *(torch.stack(one) for one in rest))

    def get_codes_from_indices(self, indices: Tensor) -> Tensor:
        """Codes [groups, q, ...] of indices [groups, ..., q]."""
        return torch.stack([one.get_codes_from_indices(part) for one, part in zip(self.rvqs, indices)])

    def get_output_from_indices(self, indices: Tensor) -> Tensor:
        """Quantized latents, in the layout of x, of indices [groups, ..., q]."""
        outputs = [one.get_output_from_indices(part) for one, part in zip(self.rvqs, indices)]
        return torch.cat(outputs, 1 if self.accept_image_fmap else -1)


class ResidualSimVQ(_Residual):
    """SimVQs in a row, each of what is left of the latents. Arguments besides these are SimVQ's."""

    def __init__(self, *, dim: int, num_quantizers: int, codebook_size: int, quantize_dropout: bool = False,
                 quantize_dropout_cutoff_index: int = 0, quantize_dropout_multiple_of: int = 1, channel_first: bool = False,
                 rotation_trick: bool = True, heads: int = 1, **options: Any) -> None:
        refuse("ResidualSimVQ", {"heads": heads}, {"heads": ((1,), "nsvq.GroupedResidualVQ splits the channels")}, SimVQ.__init__)
        super().__init__()
        self.num_quantizers = check_count("ResidualSimVQ", "num_quantizers", num_quantizers)
        self.codebook_size = codebook_size
        self.layers = nn.ModuleList(SimVQ(dim, codebook_size, channel_first=channel_first, rotation_trick=rotation_trick, **options)
                                    for _ in range(num_quantizers))
        self._set_dropout(quantize_dropout, quantize_dropout_cutoff_index, quantize_dropout_multiple_of)

    @property
    def codebooks(self) -> Tensor:
        """The codes [q, K, dim]."""
        return torch.stack([layer.codebook for layer in self.layers])

    def forward(self, x: Tensor, return_all_codes: bool = False, **others: Any) -> tuple[Tensor, ...]:
        """x [..., dim] or [B, dim, ...] to quantized latents like x, indices [..., q] int64, losses [q], and with
        return_all_codes the codes [q, ...]. Quantizers that dropout leaves out have index -1 and loss 0."""
        refuse("ResidualSimVQ", others, _REFUSED_IN_FORWARD, ResidualSimVQ.forward)
        total, indices, losses, _ = self._run(x, self._draw_last(x.device), 0.0)
        return (total, indices, losses, self.get_codes_from_indices(indices)) if return_all_codes else (total, indices, losses)

    def get_output_from_indices(self, indices: Tensor) -> Tensor:
        """Quantized latents, in the layout of x, of indices [..., q] or of the first quantizers alone."""
        return self.get_codes_from_indices(indices).sum(0)
