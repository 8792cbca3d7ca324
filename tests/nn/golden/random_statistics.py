"""Weights for networks with batch norm, as `formula_weights` in tests/nn/formula_weights.h has them."""

import math

import torch

from autoencoder import draw


def fill(model):
    """Convolutions keep the scale of what they are given; statistics near those of 0 and 1."""
    for name, tensor in model.state_dict().items():
        if not tensor.is_floating_point():
            continue
        values = torch.from_numpy(draw(name, tensor.numel())).reshape(tensor.shape)
        if tensor.dim() > 1:
            values = values * math.sqrt(6 / tensor[0].numel())
        elif name.endswith(("weight", "running_var")):
            values = values / 2 + 1
        else:
            values = values / 4
        tensor.copy_(values.float())
    return model.double().eval()
