"""What VectorQuantize does on demand: a loss of angles between codes, and DiVeQ's gradient."""

import math
from typing import Optional

import torch
from torch import Tensor

from nsvq.quantizers._assign import unit


def orthogonality(codes: Tensor, used: Optional[Tensor], most: Optional[int]) -> Tensor:
    """sum_ij cos(c_i, c_j)^2 / K^2 - 1 / K of codes [h, K, d], by products of d x d: |C C'|^2 = |C' C|^2.

    used: booleans [K], the codes that count; most: so many of these at most, drawn by chance.
    """
    total = codes.shape[1]
    most = min(most or total, total)
    directions, count = unit(codes), torch.full((), most, dtype=codes.dtype, device=codes.device)
    if used is not None:
        directions, count = directions * used.unsqueeze(1), used.sum().clamp(1, most).to(codes.dtype)
    if most < total:
        keys = torch.rand(total, device=codes.device)
        keys = keys if used is None else keys + used
        directions = directions[:, keys.topk(most).indices]
    with torch.autocast(codes.device.type, enabled=False):
        products = directions.transpose(1, 2) @ directions
    return products.square().sum() / (len(codes) * count.square()) - 1 / count


def reparametrised(rows: Tensor, codes: Tensor, variance: float = 5e-3) -> Tensor:
    """Latents [..., d] plus errors of the right lengths, whose directions are about right and constant (DiVeQ)."""
    error = codes - rows
    length = torch.linalg.vector_norm(error, dim=-1, keepdim=True)
    return rows + unit((error + math.sqrt(variance) * torch.randn_like(error)).detach()) * length
