"""Affine reparameterisation from its equations, its parameters learned: writes affine.json beside itself."""

from common import case, mse, nearest, places, rows, write


def quantize(rate, beta, commitment):
    def compute(z, tensors):
        flat = rows(z)
        codes = (1 + rate * tensors["scale"]) * tensors["codebook"] + rate * tensors["shift"]
        q = nearest(flat, codes)
        chosen = codes[q]
        loss = beta * mse(flat.detach(), chosen)
        if commitment:
            loss = loss + (1 - beta) * mse(flat, chosen.detach())
        return loss, q, places(flat + (chosen - flat).detach(), z)
    return compute


tensors = {"codebook": ((7, 4), 0.6, 1.7), "scale": ((4,), 0.04, 0.4), "shift": ((4,), 0.03, 0.9)}
write(__file__, [
    case(["quantizer.type=affine", "quantizer.codes=7", f"quantizer.beta={beta}"], (2, 4, 2, 3), tensors,
         quantize(10, beta, commitment), commitment=commitment)
    for beta, commitment in ((0.95, True), (0.25, True), (0.95, False))
])
