"""How far LPIPS-VGG moves where the inputs of its convolutions are rounded to TF32, 10 bits, as on a GPU: emulated on a
CPU, on photos and their blurred copies.

lpips_tf32.py SHARD.tar VGG HEADS [COUNT]

SHARD.tar  JPEG photos; the first COUNT (24) are cropped to a square and resized to 128x128
VGG        vgg16.safetensors and
HEADS      lpips-vgg.safetensors of the store of weights
"""

import io
import itertools
import sys
import tarfile

import torch
from PIL import Image, ImageFilter

import numerics_torch
import step_torch


def rounded(x):
    """To the nearest of 10 bits, ties to even."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


def photos(shard, count):
    with tarfile.open(shard) as members:
        names = (one for one in members if one.name.lower().endswith((".jpg", ".jpeg")))
        for one in itertools.islice(names, count):
            photo = Image.open(io.BytesIO(members.extractfile(one).read())).convert("RGB")
            side = min(photo.size)
            yield photo.crop((0, 0, side, side)).resize((128, 128))


def batch(images):
    pixels = [torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8) for image in images]
    return torch.stack(pixels).view(-1, 128, 128, 3).permute(0, 3, 1, 2).float() / 127.5 - 1


def distances(lpips, ours, theirs):
    return torch.stack([lpips(a[None], b[None]) for a, b in zip(ours, theirs)])


def load(vgg, heads, tf32):
    lpips = step_torch.Lpips()
    numerics_torch.load_lpips(lpips, vgg, heads)
    for layer in lpips.modules() if tf32 else ():
        if isinstance(layer, torch.nn.Conv2d):
            layer.weight.data = rounded(layer.weight.data)
            layer.register_forward_pre_hook(lambda _, inputs: (rounded(inputs[0]),))
    return lpips


@torch.no_grad()
def main():
    shard, vgg, heads = sys.argv[1:4]
    images = list(photos(shard, int(sys.argv[4]) if len(sys.argv) > 4 else 24))
    exact, tf32 = (load(vgg, heads, rounds) for rounds in (False, True))
    print("| blur, pixels | LPIPS-VGG, mean | TF32 moves the mean by | one image by at most |\n|---|---|---|---|")
    for radius in (2, 0.5):
        pair = batch(images), batch([image.filter(ImageFilter.GaussianBlur(radius)) for image in images])
        right, moved = distances(exact, *pair), distances(tf32, *pair)
        mean, most = (moved.mean() / right.mean() - 1).item(), (moved / right - 1).abs().max().item()
        print(f"| {radius} | {right.mean().item():.4f} | {mean:.1e} | {most:.1e} |")


main()
