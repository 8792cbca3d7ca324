"""SimVQ: codes as a trained map of a frozen codebook."""

from typing import Any, Callable, Mapping, Optional

import torch
from torch import Tensor, nn

from nsvq.quantizers._arguments import check_number, refuse
from nsvq.quantizers._assign import ROTATION, STRAIGHT, assign, search
from nsvq.quantizers._layout import at_least_fp32
from nsvq.quantizers._single import SingleCodebook
from nsvq.quantizers.nsvq import search_with_neighbours


class SimVQ(SingleCodebook):
    """Nearest codes among a linear map of a Gaussian codebook that stays as it was drawn.

    The loss is commitment_weight (|sg z - c_q|^2 + input_to_quantize_commit_loss_weight |z - sg c_q|^2), and alpha times the
    NS loss in training. Arguments and `state_dict` are those of vector-quantize-pytorch; bias, alpha and tau are ours.
    """

    def __init__(self, dim: int, codebook_size: int, codebook_transform: Optional[nn.Module] = None,
                 init_fn: Optional[Callable[[Tensor], Tensor]] = None, channel_first: bool = False, rotation_trick: bool = True,
                 input_to_quantize_commit_loss_weight: float = 0.25, commitment_weight: float = 1.0,
                 frozen_codebook_dim: Optional[int] = None, *, bias: bool = False, alpha: float = 0.0, tau: float = 0.35,
                 accept_image_fmap: bool = False, **others: Any) -> None:
        """codebook_transform: module of frozen codes [K, frozen_codebook_dim] to codes [K, dim], by default linear;
        init_fn: of the drawn codes; alpha, tau: weight and temperature of the NS loss (the program's simvq_ns)."""
        refuse("SimVQ", others, {}, SimVQ.__init__)
        super().__init__(dim, codebook_size, channels_first=channel_first, accept_image_fmap=accept_image_fmap)
        width = frozen_codebook_dim or dim
        frozen = torch.randn(codebook_size, width) * width**-0.5
        self.code_transform = nn.Linear(width, dim, bias=bias) if codebook_transform is None else codebook_transform
        self.register_buffer("frozen_codebook", frozen if init_fn is None else init_fn(frozen))
        self.rotation_trick, self.commitment_weight = rotation_trick, commitment_weight
        self.input_to_quantize_commit_loss_weight = input_to_quantize_commit_loss_weight
        self.alpha, self.tau = check_number("SimVQ", "alpha", alpha, 0), check_number("SimVQ", "tau", tau, 1e-30)

    @property
    def codebook(self) -> Tensor:
        """The codes [K, dim], made anew at each call. To set codes, load `frozen_codebook` and `code_transform`."""
        return self._codes()

    def indices_to_codes(self, indices: Tensor) -> Tensor:
        """get_codes_from_indices, by its name in vector-quantize-pytorch."""
        return self.get_codes_from_indices(indices)

    def _codes(self) -> Tensor:
        return at_least_fp32(self.code_transform(self.frozen_codebook))

    def _fit(self, rows: Tensor, codes: Tensor, counted: Optional[Tensor]) -> tuple[Tensor, Tensor, Tensor, Mapping[str, Tensor]]:
        if self.alpha > 0 and self.training:
            indices, distances, neighbours = search_with_neighbours(rows, codes, counted, self.tau)
        else:
            (indices, distances), neighbours = search(rows, codes), rows.new_zeros(())
        weight, whole = self.input_to_quantize_commit_loss_weight, 1 + self.input_to_quantize_commit_loss_weight
        quantized, mean = assign(rows, codes, indices, distances, counted, through=ROTATION if self.rotation_trick else STRAIGHT,
                                 to_rows=weight / whole, to_codes=1 / whole)
        terms = {"commitment": mean.detach(), "embedding": mean.detach(), "ns": neighbours.detach()}
        return quantized, indices, self.commitment_weight * whole * mean + self.alpha * neighbours, terms
