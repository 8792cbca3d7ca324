"""VectorQuantize of vector-quantize-pytorch over a trained codebook, without running means, in fp64: what
quantizers.py, affine.py and rotation.py share."""

import unittest.mock

import torch
from vector_quantize_pytorch import VectorQuantize


def layer(codes, **settings):
    """Over codes [K, d], a parameter or made of parameters."""
    made = VectorQuantize(codes.shape[1], len(codes), learnable_codebook=True, ema_update=False, accept_image_fmap=True,
                          **{"rotation_trick": False, **settings})
    del made._codebook.embed
    made._codebook.embed = codes[None]
    return made


def call(made, z, **options):
    # The package rounds latents to fp32; its arithmetic is to stay in fp64.
    with unittest.mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
        return made(z, **options)


def quantize(made, z, embedding=1.0, commitment=True):
    """Loss, indices and the decoder's input. The package's one loss |z - c|^2 moves latents and codes alike: latents
    without gradient leave the embedding term of it, a frozen codebook the commitment, times the commitment_weight."""
    loss = embedding * call(made, z.detach(), return_loss_breakdown=True)[-1].commitment
    out, q, weighted = call(made, z, freeze_codebook=True)
    return loss + weighted if commitment else loss, q, out
