"""Writes lpips.json beside itself: distances of the `lpips` package and their gradients.

    python lpips.py        needs torch, torchvision, numpy and lpips==0.1.4; downloads nothing

The networks' parameters follow from their names (see `draw` of tests/nn/golden/autoencoder.py).
Everything is computed in fp64 from values rounded to fp32.
"""

import json
import math
import pathlib
import sys
import warnings

# Not this file, which has the package's name.
sys.path = [folder for folder in sys.path if pathlib.Path(folder).resolve() != pathlib.Path(__file__).resolve().parent]
import lpips
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "nn" / "golden"))
from autoencoder import draw, draw_tensor, summary

# An odd size, and the least in either direction.
SHAPES = {
    "vgg": [[2, 3, 67, 93], [1, 3, 16, 16], [1, 3, 19, 16]],
    "alex": [[2, 3, 67, 93], [1, 3, 31, 31], [1, 3, 31, 34]],
    "squeeze": [[2, 3, 67, 93], [1, 3, 17, 17], [1, 3, 18, 17]],
}


def fill(model):
    """Weights equal to those of `random_weights` in tests/losses/random_lpips.h: convolutions keep the scale of what they
    are given, heads are positive."""
    for slice_name, slice_module in model.net.named_children():
        for name, parameter in slice_module.named_parameters():
            values = draw("features." + name, parameter.numel())
            values *= math.sqrt(6 / parameter[0].numel()) if parameter.dim() > 1 else 0.1
            parameter.data = torch.from_numpy(values).float().double().reshape(parameter.shape)
    for i, head in enumerate(model.lins):
        parameter = head.model[-1].weight
        values = draw(f"lin{i}.weight", parameter.numel()) / 2 + 0.5
        parameter.data = torch.from_numpy(values).float().double().reshape(parameter.shape)


def golden(model, shape):
    images = draw_tensor("images", shape).requires_grad_()
    references = (images.detach() * 0.75 + 0.25 * draw_tensor("references", shape)).float().double()
    distances = model(images, references).flatten()
    (distances * draw_tensor("loss", distances.shape)).sum().backward()
    return {"shape": shape, "distances": distances.tolist(), "gradient": summary(images.grad, 64)}


def main():
    warnings.simplefilter("ignore")
    lines = []
    for net, shapes in SHAPES.items():
        model = lpips.LPIPS(net=net, pretrained=False, pnet_rand=True, verbose=False).double()
        fill(model)
        lines.append(f"{json.dumps(net)}: {json.dumps([golden(model, shape) for shape in shapes])}")
        for smaller in ([1, 3, shapes[1][2] - 1, 40], [1, 3, 40, shapes[1][3] - 1]):
            try:
                model(torch.zeros(smaller).double(), torch.zeros(smaller).double())
            except RuntimeError:
                continue
            raise AssertionError(f"{net} takes images of {smaller}")
    pathlib.Path(__file__).with_suffix(".json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
