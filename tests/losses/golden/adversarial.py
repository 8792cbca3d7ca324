"""The adversarial losses in plain PyTorch: writes adversarial.json beside itself.

Values and gradients in fp32 and fp64. The inputs are a formula that the C++ test repeats.
"""

import json
import math
import pathlib

import torch
from torch.nn import functional as F

SHAPES = [(3, 1, 2, 5), (1, 1, 1, 1), (2, 1, 4, 3)]


def formula(shape, phase, scale=1.0):
    """Numbers in [-scale, scale] from whole ones, so that every machine has the same."""
    i = torch.arange(math.prod(shape))
    whole = (((7 * i + 31) * i + 17) * i + 101 * phase) % 2003
    return ((whole.double() / 1001 - 1) * scale).reshape(list(shape))


def generator_loss(kind, fake):
    if kind == "hinge":
        return -fake.mean()
    return torch.stack([F.softplus(-image.mean()) for image in fake]).mean()


def discriminator_loss(kind, real, fake):
    if kind == "hinge":
        return (F.relu(1 - real).mean() + F.relu(1 + fake).mean()) / 2
    return (F.softplus(-real).mean() + F.softplus(fake).mean()) / 2


def lecam_penalty(real, fake, ema_real, ema_fake):
    return F.relu(real - ema_fake).pow(2).mean() + F.relu(ema_real - fake).pow(2).mean()


def flat(tensor):
    return tensor.flatten().tolist()


def loss_cases(dtype):
    cases = []
    for shape in SHAPES:
        for kind in ("non_saturating", "hinge"):
            fake = formula(shape, 3, 4).to(dtype).requires_grad_()
            loss = generator_loss(kind, fake)
            loss.backward()
            cases.append({"loss": "generator", "kind": kind, "shape": shape, "value": loss.item(),
                          "fake_gradient": flat(fake.grad)})
        for kind in ("hinge", "vanilla"):
            real = formula(shape, 5, 4).to(dtype).requires_grad_()
            fake = formula(shape, 3, 4).to(dtype).requires_grad_()
            loss = discriminator_loss(kind, real, fake)
            loss.backward()
            cases.append({"loss": "discriminator", "kind": kind, "shape": shape, "value": loss.item(),
                          "real_gradient": flat(real.grad), "fake_gradient": flat(fake.grad)})
    return cases


def lecam_steps(dtype):
    """The running means are Python's floats, which are fp64, whatever the precision of the logits."""
    ema_real = ema_fake = 0.0
    steps = []
    for step in range(6):
        real = (formula((2, 1, 3, 5), 10 + step, 4) + 50).to(dtype).requires_grad_()
        fake = (formula((2, 1, 3, 5), 20 + step, 4) - 30).to(dtype).requires_grad_()
        ema_real = 0.999 * ema_real + 0.001 * real.detach().double().mean().item()
        ema_fake = 0.999 * ema_fake + 0.001 * fake.detach().double().mean().item()
        # About the running means, where some logits pay and others do not.
        shift_real, shift_fake = real - 50, fake + 30
        loss = lecam_penalty(shift_real, shift_fake, ema_real, ema_fake)
        loss.backward()
        steps.append({"ema_real": ema_real, "ema_fake": ema_fake, "value": loss.item(),
                      "real_gradient": flat(real.grad), "fake_gradient": flat(fake.grad)})
    return steps


def adaptive_case(dtype):
    """A decoder of two convolutions, an L1 loss, and one convolution as the critic."""
    first = formula((5, 4, 3, 3), 1, 0.4).to(dtype).requires_grad_()
    last = formula((3, 5, 3, 3), 2, 0.4).to(dtype).requires_grad_()
    critic = formula((1, 3, 4, 4), 3, 0.4).to(dtype)
    latents, images = formula((2, 4, 5, 7), 4).to(dtype), formula((2, 3, 5, 7), 5).to(dtype)
    decoded = F.conv2d(F.silu(F.conv2d(latents, first, padding=1)), last, padding=1)
    reconstruction = (decoded - images).abs().mean()
    adversarial = generator_loss("non_saturating", F.conv2d(decoded, critic, stride=2, padding=1))
    gradients = [torch.autograd.grad(loss, last, retain_graph=True)[0]
                 for loss in (reconstruction, adversarial)]
    weight = (gradients[0].norm() / (gradients[1].norm() + 1e-4)).clamp(0, 1e4).item()
    (reconstruction + weight * adversarial).backward()
    return {"weight": weight, "first_gradient": flat(first.grad), "last_gradient": flat(last.grad)}


def main():
    golden = {name: {"losses": loss_cases(dtype), "lecam": lecam_steps(dtype),
                     "adaptive": adaptive_case(dtype)}
              for name, dtype in (("float32", torch.float32), ("float64", torch.float64))}
    lines = [f"{json.dumps(name)}: {json.dumps(values)}" for name, values in golden.items()]
    pathlib.Path(__file__).with_suffix(".json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
