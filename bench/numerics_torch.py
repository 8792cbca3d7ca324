"""Losses of a training in PyTorch from the same weights on the same images as one of nsvq, step by step.

numerics_torch.py RUN IMAGES VGG HEADS [STEPS]

RUN     a run of nsvq that has taken one step of no length (optimizer.lr=1e-30), so that its checkpoint holds the
        weights that every run of that recipe begins with
IMAGES  a folder of PNG files, all of which are one batch
VGG     vgg16.safetensors and
HEADS   lpips-vgg.safetensors of the store of weights

Prints one JSON object with the loss of each step, in bf16. bench/numerics.sh makes the runs and the table.
"""

import json
import pathlib
import struct
import sys

import torch
from PIL import Image

import step_torch

TYPES = {"F32": torch.float32, "F16": torch.float16, "F64": torch.float64, "I64": torch.int64}


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    tensors = {}
    for name, entry in header.items():
        first, last = entry.get("data_offsets", (0, 0))
        if name == "__metadata__" or first == last:
            continue
        flat = torch.frombuffer(bytearray(body[first:last]), dtype=TYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def part(tensors, prefix):
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}


def load_lpips(lpips, vgg, heads):
    vgg = read_safetensors(vgg)
    names = sorted((name for name in vgg if name.endswith("weight")), key=lambda name: int(name.split(".")[1]))
    layers = [layer for block in lpips.blocks for layer in block if isinstance(layer, torch.nn.Conv2d)]
    for layer, name in zip(layers, names, strict=True):
        layer.weight.data.copy_(vgg[name])
        layer.bias.data.copy_(vgg[name.replace("weight", "bias")])
    for head, values in zip(lpips.heads, dict(sorted(read_safetensors(heads).items())).values(), strict=True):
        head.data.copy_(values.flatten())


def load_step(run, images, vgg, heads):
    sys.argv = ["step_torch.py", "--device", "cuda" if torch.cuda.is_available() else "cpu"]
    step = step_torch.Step(step_torch.parse_options())
    state = read_safetensors(pathlib.Path(run) / "checkpoints" / "step-1" / "training.safetensors")
    model = part(state, "model.")
    with torch.no_grad():
        step.codebook.copy_(model.pop("quantizer.codebook"))
    step.model.load_state_dict(model)
    step.judge.load_state_dict(part(state, "discriminator.model.main."))
    load_lpips(step.lpips, vgg, heads)
    pixels = [torch.frombuffer(bytearray(Image.open(path).convert("RGB").tobytes()), dtype=torch.uint8)
              for path in sorted(pathlib.Path(images).glob("*.png"))]
    batch = torch.stack(pixels).view(-1, 128, 128, 3).permute(0, 3, 1, 2).float() / 127.5 - 1
    step.images = batch.contiguous().to(step.options.device)
    return step


def main():
    run, images, vgg, heads = sys.argv[1:5]
    steps = int(sys.argv[5]) if len(sys.argv) > 5 else 200
    torch.backends.cudnn.benchmark = True
    step = load_step(run, images, vgg, heads)
    losses = []
    for _ in range(steps):
        step()
        losses.append(step.loss)
    print(json.dumps({"losses": [loss.item() for loss in losses]}))


if __name__ == "__main__":
    main()
