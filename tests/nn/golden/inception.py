"""Writes inception.json beside itself: activations of pytorch-fid's InceptionV3 and of torchvision's.

    python inception.py        needs torch, torchvision, numpy and pytorch-fid==0.3.0; downloads nothing

Parameters and statistics follow from their names (see random_statistics.py). "fid" and
"torchvision" have every layer for one input of odd size, "features" what pytorch-fid makes of images
in [0, 1]. fp64 from values rounded to fp32.
"""

import json
import pathlib
from unittest import mock

import torch
from pytorch_fid import inception as fid
from torch import nn
from torchvision.models.inception import inception_v3

from autoencoder import draw_tensor, summary
from random_statistics import fill

INPUT = [2, 3, 139, 171]
# Smaller than 299, larger in one direction, and one pixel.
IMAGES = [[2, 3, 61, 47], [1, 3, 33, 331], [1, 3, 1, 1]]
STEM = ["Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3", "maxpool1", "Conv2d_3b_1x1", "Conv2d_4a_3x3", "maxpool2"]
BLOCKS = ["5b", "5c", "5d", "6a", "6b", "6c", "6d", "6e", "7a", "7b", "7c"]


def layers(model):
    for name in STEM + [f"Mixed_{block}" for block in BLOCKS]:
        yield name, nn.MaxPool2d(3, 2) if name.startswith("maxpool") else getattr(model, name)
    yield "avgpool", lambda x: nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)


def activations(model):
    x = draw_tensor("input", INPUT)
    found = {}
    for name, layer in layers(model):
        x = layer(x)
        found[name] = {"shape": list(x.shape), **summary(x, 16)}
    return {"input": INPUT, "steps": found}


def features(model, shape):
    """By pytorch-fid's own forward, which asks for the model that it would download."""
    images = (draw_tensor("images", shape) / 2 + 0.5).float().double()
    with mock.patch.object(fid, "fid_inception_v3", lambda: model):
        (pooled,) = fid.InceptionV3([3])(images)
    return {"images": shape, **summary(pooled.flatten(1), 32)}


@torch.no_grad()
def main():
    with mock.patch.object(fid, "load_state_dict_from_url"), mock.patch.object(nn.Module, "load_state_dict"):
        patched = fill(fid.fid_inception_v3())
    plain = fill(inception_v3(weights=None, aux_logits=False, init_weights=False))
    golden = {"fid": activations(patched), "torchvision": activations(plain),
              "features": [features(patched, shape) for shape in IMAGES]}
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in golden.items()]
    pathlib.Path(__file__).with_suffix(".json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
