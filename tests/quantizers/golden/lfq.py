"""LFQ from its equations, over all codes at once: writes lfq.json beside itself."""

import torch
from common import case, mse, rows, write


def quantize(temperature, entropy, diversity, commitment):
    def compute(z, _):
        flat, bits = rows(z), z.shape[1]
        codes = torch.tensor([[1.0 if j >> k & 1 else -1.0 for k in range(bits)] for j in range(2 ** bits)])
        logits = 2 * flat @ codes.T / temperature
        p = torch.softmax(logits, 1)
        mean = p.mean(0)
        sample = -(p * torch.log_softmax(logits, 1)).sum(1).mean()
        batch = -(mean * torch.log(mean + 1e-5)).sum()
        signs = torch.where(z > 0, 1.0, -1.0)
        loss = 0.25 * mse(z, signs) + entropy * (sample - diversity * batch) if commitment else 0 * z.sum()
        index = ((flat > 0) * 2 ** torch.arange(bits)).sum(1)
        return loss, index, z + (signs - z).detach()
    return compute


def one(bits, temperature, entropy, diversity, commitment=True):
    return case(["quantizer.type=lfq", f"quantizer.lfq.bits={bits}", f"model.latent_dim={bits}",
                 f"quantizer.lfq.temperature={temperature}", f"quantizer.lfq.entropy={entropy}",
                 f"quantizer.lfq.diversity={diversity}"], (2, bits, 2, 3), {},
                quantize(temperature, entropy, diversity, commitment), scale=0.3, commitment=commitment)


write(__file__, [one(5, 0.01, 0.1, 1), one(5, 1.0, 0.1, 1), one(4, 0.5, 0.3, 2), one(1, 0.5, 0.1, 1),
                 one(3, 0.5, 0.1, 1, commitment=False)])
