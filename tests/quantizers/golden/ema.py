"""Running-mean codes by vector-quantize-pytorch 1.32 (fp32): writes ema.json beside itself.

The inputs are a formula that the C++ test repeats, so the file holds results alone.
"""

import json
import pathlib

import torch
from vector_quantize_pytorch import VectorQuantize


def formula(shape, scale, phase):
    n = int(torch.tensor(shape).prod())
    return (scale * torch.sin(0.7 * torch.arange(n, dtype=torch.float64) ** 1.3 + phase)).reshape(shape).float()


cases = []
for codes, dim, decay, smoothing in [(7, 4, 0.99, 1e-5), (7, 4, 0.6, 0.2), (33, 6, 0.9, 1e-5)]:
    vq = VectorQuantize(dim=dim, codebook_size=codes, decay=decay, eps=smoothing, commitment_weight=0.25,
                        threshold_ema_dead_code=0, rotation_trick=False)
    start = formula((codes, dim), 0.6, 1.7)
    vq._codebook.embed.data.copy_(start[None])
    vq._codebook.embed_avg.data.copy_(start[None])
    vq.train()
    steps = []
    for number in range(4):
        z = formula((2, dim, 3, 5), 0.8, 0.1 + number).requires_grad_()
        out, indices, loss = vq(z.permute(0, 2, 3, 1).reshape(1, -1, dim))
        loss.sum().backward()
        steps.append({
            "loss": loss.sum().item(), "indices": indices.flatten().tolist(),
            "latent_gradient_sum": z.grad.abs().sum().item(),
            "counts": vq._codebook.cluster_size.flatten().tolist(),
            "codebook_norms": vq._codebook.embed[0].norm(dim=1).tolist(),
        })
    steps[-1]["codebook"] = vq._codebook.embed.flatten().tolist()
    cases.append({"codes": codes, "dim": dim, "decay": decay, "smoothing": smoothing, "steps": steps})

short = json.loads(json.dumps(cases), parse_float=lambda x: float(f"{float(x):.8g}"))
pathlib.Path(__file__).with_name("ema.json").write_text(json.dumps(short) + "\n")
