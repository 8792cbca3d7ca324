"""Writes resnet50.json beside itself: activations of torchvision's ResNet-50.

    python resnet50.py        needs torch, torchvision and numpy; downloads nothing

Parameters and statistics follow from their names (see random_statistics.py). Each
layer's output for inputs of odd size and of the least; fp64 from values rounded to fp32.
"""

import json
import pathlib

import torch
from torchvision.models import resnet50

from autoencoder import draw_tensor, summary
from random_statistics import fill

INPUTS = [[2, 3, 139, 171], [1, 3, 32, 32]]


def activations(model, shape):
    x = draw_tensor("input", shape)
    x = model.maxpool(model.relu(model.bn1(model.conv1(x))))
    found = []
    for layer in [model.layer1, model.layer2, model.layer3, model.layer4]:
        x = layer(x)
        found.append({"shape": list(x.shape), **summary(x, 16)})
    return {"input": shape, "layers": found}


@torch.no_grad()
def main():
    model = fill(resnet50(weights=None))
    lines = [json.dumps(activations(model, shape)) for shape in INPUTS]
    pathlib.Path(__file__).with_suffix(".json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
