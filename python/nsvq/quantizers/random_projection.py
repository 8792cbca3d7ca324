"""RandomProjectionQuantizer: nearest codes of random projections, as targets (BEST-RQ)."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nsvq.quantizers.vector_quantize import VectorQuantize


class RandomProjectionQuantizer(nn.Module):
    """Indices of the codes of least angle to random projections of latents. Nothing trains."""

    def __init__(self, *, dim: int, codebook_size: int, codebook_dim: int, num_codebooks: int = 1, norm: bool = True,
                 **options: Any) -> None:
        """norm: latents are normalised to mean 0 and variance 1 first; options: VectorQuantize's."""
        super().__init__()
        self.dim, self.norm, self.num_codebooks = dim, norm, num_codebooks
        self.register_buffer("rand_projs", nn.init.xavier_normal_(torch.empty(num_codebooks, dim, codebook_dim)))
        self.vq = VectorQuantize(codebook_dim * num_codebooks, codebook_size, heads=num_codebooks, use_cosine_sim=True,
                                 separate_codebook_per_head=True, **options)
        self.vq.eval()

    def train(self, mode: bool = True) -> "RandomProjectionQuantizer":
        """The codebook stays in evaluation."""
        super().train(mode)
        self.vq.eval()
        return self

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """x [..., dim] to indices [..., num_codebooks] int64, with one codebook [...]."""
        x = F.layer_norm(x, (self.dim,)) if self.norm else x
        projected = torch.einsum("...d,hde->...he", x, self.rand_projs).flatten(-2)
        return self.vq(projected)[1]
