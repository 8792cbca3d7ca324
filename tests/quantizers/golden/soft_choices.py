"""Losses and gradients of quantizers that choose codes by a softmax (sqvae, gumbel, ibq), without noise, in plain
PyTorch on the N x K matrix, fp64: writes soft_choices.json beside itself.

Inputs and parameters are a formula that the C++ test repeats.
"""

import json
import math
import pathlib

import torch
import torch.nn.functional as F
from common import formula, rows


def sqvae(z, p, step):
    """The divergence of SQ-VAE per image; the decoder gets the nearest code, straight through."""
    given = z if step["commitment"] else z.detach()
    flat, codebook, variance = rows(given), p["codebook"], 1 + p["log_variance"].exp()
    logits = -((flat[:, None] - codebook[None]) ** 2).sum(-1) / (2 * variance)
    probabilities, logs = logits.softmax(1), logits.log_softmax(1)
    q = logits.argmax(1)
    chosen = codebook[q]
    loss = ((probabilities * logs).sum() + ((flat - chosen) ** 2).sum() / (2 * variance)) / z.shape[0]
    return loss, q, chosen.detach() + flat - flat.detach()


def one_hot_through(soft):
    hard = F.one_hot(soft.argmax(1), soft.shape[1]).to(soft)
    return hard - soft.detach() + soft


def gumbel(z, p, step):
    flat = rows(z if step["commitment"] else z.detach())
    logits = F.linear(flat, p["projection.weight"], p["projection.bias"])
    # Taming's cosine at `number` of 1,000,000 steps from 0.9 to 1e-6.
    temperature = 1e-6 + 0.5 * (0.9 - 1e-6) * (1 + math.cos(math.pi * min(1, step["number"] / 1000000)))
    choice = one_hot_through((logits / temperature).softmax(1))
    shares = logits.softmax(1)
    loss = 5e-4 * (shares * torch.log(shares * logits.shape[1] + 1e-10)).sum(1).mean()
    return loss, logits.argmax(1), choice @ p["codebook"]


def ibq(z, p, step):
    flat, codebook = rows(z if step["commitment"] else z.detach()), p["codebook"]
    logits = flat @ codebook.T
    choice = one_hot_through(logits.softmax(1))
    q = logits.argmax(1)
    through, winner = choice @ codebook, codebook[q]
    loss = ((through - flat) ** 2).mean() + 0.25 * ((winner - flat.detach()) ** 2).mean()
    if step["commitment"]:
        loss = loss + ((winner.detach() - flat) ** 2).mean()
    if step["neighbours"]:
        shares, logs = (logits / 0.01).softmax(1), (logits / 0.01).log_softmax(1)
        mean = shares.mean(0)
        entropy, of_mean = -(shares * logs).sum(1).mean(), -(mean * torch.log(mean + 1e-5)).sum()
        loss = loss + 0.05 * (entropy - of_mean)
    return loss, q, through


shape, codes = (2, 4, 3, 2), 9
members = {
    "sqvae": (sqvae, {"codebook": (codes, 4), "log_variance": ()}),
    "gumbel": (gumbel, {"codebook": (codes, 4), "projection.weight": (codes, 4), "projection.bias": (codes,)}),
    "ibq": (ibq, {"codebook": (codes, 4)}),
}
cases = []
for name, (function, shapes) in members.items():
    for commitment, neighbours, number in [(True, True, 0), (False, False, 300000)]:
        z = formula(shape, 0.8, 0.1).requires_grad_()
        p = {key: formula(size, 0.6, 1.7 + 1.1 * i).requires_grad_() for i, (key, size) in enumerate(shapes.items())}
        step = {"commitment": commitment, "neighbours": neighbours, "number": number}
        loss, q, out = function(z, p, step)
        total = loss + (out * rows(formula(shape, 1.0, 2.9))).sum()
        gradients = torch.autograd.grad(total, [z, *p.values()], allow_unused=True)
        zero = lambda g, like: (torch.zeros_like(like) if g is None else g).flatten().tolist()
        cases.append({
            "type": name, "shape": shape, "codes": codes, **step, "tensors": list(shapes), "loss": loss.item(),
            "indices": q.tolist(), "latent_gradient": zero(gradients[0], z),
            "gradients": {key: zero(g, p[key]) for key, g in zip(p, gradients[1:])},
        })

path = pathlib.Path(__file__).with_name("soft_choices.json")
path.write_text(json.dumps(cases) + "\n")
