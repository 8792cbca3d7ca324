"""Computes the figures of `nsvq eval` a second time, from exported weights, with Pillow, PyTorch and scikit-image.

    run.sh eval_parity.py NSVQ                   ctest: a small model on pictures made here
    run.sh eval_parity.py NSVQ MODEL TAR_FILE    by hand: any model with a codebook, any shard of pictures

Agreement is asked for to three digits. FID has random weights in the small case; by hand, it and LPIPS-VGG take part
when the store holds their weights.
"""

import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
from PIL import Image, ImageOps
from safetensors import safe_open
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

try:
    import torch
    from torch.nn import functional as F
except ImportError:
    print("skipped: built with a torch of another Python version")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "nn" / "golden"))
from autoencoder import Autoencoder
from plain_fid import features, frechet_distance, precision_recall, store_random

BATCH = 50
RECIPE = """
data: {train: "builtin:dead-leaves?size=32&count=64", val: "builtin:dead-leaves?size=32&count=8&seed=1", size: 32}
model: {width: 8, multipliers: [1, 2, 2], blocks: 1, latent_dim: 8}
quantizer: {codes: 64}
optimizer: {lr: 1e-3, ema_decay: 0.9}
schedule: {phases: [stage1], freeze: never}
train: {epochs: 3, batch_size: 8}
"""


def load_file(path):
    with safe_open(path, "pt") as tensors:
        return {key: tensors.get_tensor(key) for key in tensors.keys()}


def pictures(path, size):
    """Pictures of a tar in its order: short side to `size`, centre crop; [N, size, size, 3] uint8."""
    out = []
    with tarfile.open(path) as archive:
        for member in archive:
            if not member.name.endswith((".jpg", ".png")):
                continue
            image = Image.open(io.BytesIO(archive.extractfile(member).read()))
            image = ImageOps.exif_transpose(image).convert("RGB")
            width, height = (int(size * side / min(image.size)) for side in image.size)
            if (width, height) != image.size:
                image = image.resize((width, height), Image.Resampling.BILINEAR)
            left, top = round((width - size) / 2), round((height - size) / 2)
            out.append(np.asarray(image.crop((left, top, left + size, top + size))))
    return np.stack(out)


def reconstruct(weights, config, pixels):
    model = Autoencoder(config["model"])
    codebook = weights.pop("quantizer.codebook").double()
    model.load_state_dict(weights, strict=True)
    outs, tokens = [], []
    for begin in range(0, len(pixels), BATCH):
        with torch.no_grad():
            images = torch.from_numpy(pixels[begin : begin + BATCH]).permute(0, 3, 1, 2) / 127.5 - 1
            latents = model.encoder(images).permute(0, 2, 3, 1)
            flat = latents.reshape(-1, latents.shape[-1]).double()
            indices = torch.cdist(flat, codebook, compute_mode="donot_use_mm_for_euclid_dist").argmin(1)
            codes = codebook[indices].float().reshape(latents.shape).permute(0, 3, 1, 2)
            out = model.decoder(codes)
        outs.append(((out.permute(0, 2, 3, 1) + 1) * 127.5 + 0.5).floor().clamp(0, 255).to(torch.uint8).numpy())
        tokens.append(indices.numpy())
    return np.concatenate(outs), np.concatenate(tokens)


def lpips_vgg(store, a, b):
    """LPIPS 0.1 by its definition; a and b are [N, H, W, 3] uint8."""
    vgg, heads = load_file(store / "vgg16.safetensors"), load_file(store / "lpips-vgg.safetensors")
    convolutions = sorted({int(key.split(".")[1]) for key in vgg})
    taps = (2, 7, 14, 21, 28)  # the last convolution before each pooling, and the last of all
    shift, scale = torch.tensor([-0.030, -0.088, -0.188]), torch.tensor([0.458, 0.448, 0.450])

    def features(pixels):
        x = ((torch.from_numpy(pixels) / 127.5 - 1 - shift) / scale).permute(0, 3, 1, 2)
        for number, layer in enumerate(convolutions):
            x = F.relu(F.conv2d(x, vgg[f"features.{layer}.weight"], vgg[f"features.{layer}.bias"], padding=1))
            if layer in taps:
                yield x / (x.square().sum(1, keepdim=True).sqrt() + 1e-10)
            if number + 1 < len(convolutions) and convolutions[number + 1] - layer > 2:
                x = F.max_pool2d(x, 2)

    total = 0.0
    with torch.no_grad():
        for begin in range(0, len(a), BATCH):
            pair = zip(features(a[begin : begin + BATCH]), features(b[begin : begin + BATCH]))
            for level, (x, y) in enumerate(pair):
                weight = next(value for key, value in heads.items() if key.startswith(f"lin{level}."))
                total += F.conv2d((x - y).square(), weight.reshape(1, -1, 1, 1)).mean((1, 2, 3)).double().sum().item()
    return total / len(a)


def figures(weights, config, pixels, store):
    outs, tokens = reconstruct(weights, config, pixels)
    counts = np.bincount(tokens, minlength=config["quantizer"]["codes"])
    share = counts[counts > 0] / counts.sum()
    error = np.square(outs.astype(float) - pixels.astype(float))
    result = {
        "psnr": np.mean([peak_signal_noise_ratio(a, b) for a, b in zip(pixels, outs)]),
        "psnr_pooled": 10 * np.log10(255**2 / error.mean()),
        "ssim": np.mean([structural_similarity(a, b, channel_axis=2) for a, b in zip(pixels, outs)]),
        "utilisation": np.mean(counts > 0),
        "entropy": -(share * np.log2(share)).sum(),
        "perplexity": 2 ** -(share * np.log2(share)).sum(),
    }
    if (store / "vgg16.safetensors").exists() and (store / "lpips-vgg.safetensors").exists():
        result["lpips-vgg"] = lpips_vgg(store, pixels, outs)
    if (store / "inception.safetensors").exists():
        inception = load_file(store / "inception.safetensors")
        of_images, of_outs = (features(inception, images, BATCH) for images in (pixels, outs))
        result["fid"] = frechet_distance(of_images, of_outs)
        result["precision"], result["recall"] = precision_recall(of_images, of_outs)
    return result


def compare(nsvq, model, shard, store, folder):
    subprocess.run([nsvq, "export", model, "--out", folder / "model.safetensors"], check=True, capture_output=True)
    config = json.loads((folder / "model.json").read_text())
    theirs = figures(load_file(folder / "model.safetensors"), config, pictures(shard, config["data"]["size"]), store)
    command = [nsvq, "eval", model, "--data", shard, "--json", folder / "eval.json", "--metrics", ",".join(theirs)]
    environment = {**os.environ, "NSVQ_WEIGHTS": str(store)}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    ours = json.loads((folder / "eval.json").read_text())
    print(f"{ours['images']} images\n{'':12} {'nsvq eval':>12} {'Python':>12} {'difference':>12}")
    worst = 0
    for name, value in theirs.items():
        difference = abs(ours[name] / value - 1) if value else abs(ours[name])
        worst = max(worst, difference)
        print(f"{name:12} {ours[name]:12.6f} {value:12.6f} {difference:12.1e}")
    assert worst < 5e-4, "the figures differ within three digits"


def small_case(nsvq, folder):
    (folder / "recipe.yaml").write_text(RECIPE)
    subprocess.run([nsvq, "train", folder / "recipe.yaml", "--run", folder / "run"], check=True, capture_output=True)
    rng = np.random.default_rng(0)
    with tarfile.open(folder / "pictures.tar", "w") as archive:
        for i, (width, height) in enumerate([(32, 32), (45, 33), (33, 70), (64, 64), (97, 41), (40, 40)]):
            coarse = Image.fromarray(rng.integers(0, 256, (5, 6, 3), dtype=np.uint8))
            coarse.resize((width, height), Image.Resampling.BICUBIC).save(folder / f"{i}.png")
            archive.add(folder / f"{i}.png", f"{i}.png")
    return folder / "run", folder / "pictures.tar"


def weights_store():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return pathlib.Path(os.environ.get("NSVQ_WEIGHTS") or cache / "nsvq" / "weights")


def main(nsvq, *given):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if given:
            store, (model, shard) = weights_store(), given
        else:
            store, (model, shard) = folder / "store", small_case(nsvq, folder)
            store_random(store / "inception.safetensors")
        compare(nsvq, model, shard, store, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
