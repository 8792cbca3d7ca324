"""The discriminator of nsvq/nn as a plain PyTorch module, with the same parameter names.

Run as a script, it writes discriminator.json beside itself: outputs, gradients and running statistics
of small models, fp64. Parameters and inputs are a formula that the C++ test repeats.
"""

import json
import math
import pathlib

import torch
from torch import nn

# layers, width, images
CASES = [
    (3, 8, [3, 3, 61, 45]),
    (2, 8, [3, 3, 61, 45]),
    (1, 5, [1, 3, 6, 7]),
    (5, 2, [2, 3, 97, 101]),
]


class Discriminator(nn.Module):
    def __init__(self, width=64, layers=3):
        super().__init__()
        widths = [width * min(2**n, 8) for n in range(layers + 1)]
        main = [nn.Conv2d(3, width, 4, stride=2, padding=1), nn.LeakyReLU(0.2)]
        for n in range(1, layers + 1):
            stride = 1 if n == layers else 2
            main += [nn.Conv2d(widths[n - 1], widths[n], 4, stride=stride, padding=1, bias=False),
                     nn.BatchNorm2d(widths[n]), nn.LeakyReLU(0.2)]
        main.append(nn.Conv2d(widths[-1], 1, 4, stride=1, padding=1))
        self.main = nn.Sequential(*main)

    def forward(self, x):
        return self.main(x)


def formula(shape, phase):
    """Numbers in [-1, 1] from whole ones, so that every machine has the same."""
    i = torch.arange(math.prod(shape))
    whole = (((7 * i + 31) * i + 17) * i + 101 * phase) % 2003
    return (whole.double() / 1001 - 1).reshape(list(shape))


def fill(module):
    """Convolutions of unit gain, norm weights about 1, biases about 0; rounded to fp32."""
    for phase, parameter in enumerate(module.parameters()):
        values = formula(parameter.shape, phase)
        if parameter.dim() > 1:
            values = values * math.sqrt(3 / parameter[0].numel())
        else:
            values = values * 0.25
        parameter.data = values.float().double()
    for child in module.modules():
        if isinstance(child, nn.BatchNorm2d):
            child.weight.data += 1


def summary(tensor, count):
    flat = tensor.detach().reshape(-1)
    count = min(count, flat.numel())
    return {"norm": flat.norm().item(), "projection": (flat * formula(flat.shape, 7)).sum().item(),
            "samples": [flat[i * flat.numel() // count].item() for i in range(count)]}


def golden(layers, width, shape):
    model = Discriminator(width, layers).double()
    fill(model)
    images = formula(shape, 1).float().double().requires_grad_()
    output = model(images)
    (output * formula(output.shape, 2)).sum().backward()
    running = {name: summary(b, 3) for name, b in model.named_buffers() if "running" in name}
    gradients = {name: summary(p.grad, 3) for name, p in model.named_parameters()}
    model.eval()
    return {"layers": layers, "width": width, "images": shape, "shape": list(output.shape),
            "output": summary(output, 24), "evaluation_output": summary(model(images), 24),
            "input_gradient": summary(images.grad, 24), "gradients": gradients, "running": running}


def main():
    path = pathlib.Path(__file__).with_suffix(".json")
    lines = [json.dumps(golden(*case)) for case in CASES]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(sum(p.numel() for p in Discriminator().parameters()))


if __name__ == "__main__":
    main()
