"""Affine reparameterisation around VectorQuantize of vector-quantize-pytorch: writes affine.json (the learned variant)
and affine_running.json beside itself.

The package has the running variant alone: statistics, map, losses and gradients of those cases are its own. The learned
variant is vqtorch's; its map is written from its equation, and the package does the rest.
"""

import pathlib

import torch
from common import case, formula, write
from vector_quantize import call, layer, quantize

SHAPE, CODEBOOK = (2, 4, 2, 3), ((7, 4), 0.6, 1.7)


def learned(beta, commitment, rate=10):
    def compute(z, tensors):
        codes = (1 + rate * tensors["scale"]) * tensors["codebook"] + rate * tensors["shift"]
        return quantize(layer(codes, commitment_weight=1 - beta), z, beta, commitment)
    return compute


def running(beta, momentum, phases, statistics):
    def compute(z, tensors):
        made = layer(tensors["codebook"], commitment_weight=1 - beta, affine_param=True,
                     affine_param_batch_decay=1 - momentum, affine_param_codebook_decay=1 - momentum)
        book = made._codebook
        for phase in phases:
            book.embed = formula(*CODEBOOK[:2], phase)[None]
            call(made, formula(SHAPE, 0.8, phase))
        rows = book.batch_mean, book.batch_variance, book.codebook_mean, book.codebook_variance
        statistics.extend(torch.cat(rows).flatten().tolist())
        # The package takes a batch into its statistics before it uses them; ours after the step. Decay 1 holds them.
        book.affine_param_batch_decay = book.affine_param_codebook_decay = 1
        # Ours adds 1e-8 to the variance of the codes; the package clamps variances at 1e-5, and none here is below.
        book.codebook_variance = book.codebook_variance + 1e-8
        book.embed = tensors["codebook"][None]
        return quantize(made, z, beta)
    return compute


def running_case(beta, momentum, phases):
    statistics = []
    made = case(["quantizer.type=affine", "quantizer.affine.variant=running", "quantizer.codes=7",
                 f"quantizer.beta={beta}", f"quantizer.affine.momentum={momentum}"], SHAPE, {"codebook": CODEBOOK},
                running(beta, momentum, phases, statistics))
    return {**made, "followed": phases, "statistics": statistics}


tensors = {"codebook": CODEBOOK, "scale": ((4,), 0.04, 0.4), "shift": ((4,), 0.03, 0.9)}
write(__file__, [
    case(["quantizer.type=affine", "quantizer.codes=7", f"quantizer.beta={beta}"], SHAPE, tensors,
         learned(beta, commitment), commitment=commitment)
    for beta, commitment in ((0.95, True), (0.25, True), (0.95, False))
])
write(pathlib.Path(__file__).with_name("affine_running"),
      [running_case(0.95, 0.1, [0.3]), running_case(0.25, 0.3, [0.3, 1.4, 2.2])])
