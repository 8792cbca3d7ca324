"""Writes conventions.json: PSNR and SSIM by nsvq's conventions and by those of SimVQ and LlamaGen, which
are followed step by step on fp32 arrays as their scripts have them, with scikit-image."""

import json
import pathlib

import numpy as np
from metrics import draw
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

# Images, height, width, and how far reconstructions are off: up to `noise` of 255. More images than a
# batch of SimVQ has, so that a short one follows.
CASES = [
    {"shape": [67, 9, 11], "noise": 30},
    {"shape": [3, 33, 47], "noise": 3},
]


def batch(seed, shape, noise):
    """[B, H, W, 3] in about [-1, 1]: images of 256 levels, and reconstructions between the levels."""
    b, h, w = shape
    index = np.arange(b * 3 * h * w)
    column = index % w
    levels = column * 100 // w + 50 * (column > w // 2)
    levels = levels + np.floor(106 * draw(seed, index.size))
    off = levels + noise * (1 + index // (3 * h * w) % 5) / 5 * (2 * draw(seed + 1, index.size) - 1)
    to_images = lambda v: (v / 127.5 - 1).astype(np.float32).reshape(b, 3, h, w).transpose(0, 2, 3, 1)
    return to_images(levels), to_images(off)


def each(x, y, psnr_range=1, ssim_range=1):
    psnr = [peak_signal_noise_ratio(a, b, data_range=psnr_range) for a, b in zip(x, y)]
    ssim = [structural_similarity(a, b, channel_axis=-1, data_range=ssim_range) for a, b in zip(x, y)]
    return {"psnr": np.mean(psnr), "ssim": np.mean(ssim),
            "psnr_pooled": peak_signal_noise_ratio(x, y, data_range=psnr_range)}


def rounded(x):
    return np.floor((np.clip(x.astype(np.float64), -1, 1) + 1) * 127.5 + 0.5) / 255


def unrounded(x):
    return (np.clip(x.astype(np.float64), -1, 1) + 1) / 2


def simvq(x, y, size=64):
    to_bytes = lambda v: (((np.clip(v, -1, 1) + 1) / 2) * np.float32(255)).astype(np.uint8)
    x, y = (to_bytes(v).astype(np.float32) / 255.0 for v in (x, y))
    psnr, ssim = [], []
    for i in range(0, len(x), size):
        gt, restored = x[i : i + size], y[i : i + size]
        psnr.append(peak_signal_noise_ratio(gt, restored))
        ssim.append(np.mean([structural_similarity(b, a, data_range=1.0, channel_axis=-1)
                             for a, b in zip(gt, restored)]))
    return {"psnr": np.mean(psnr), "ssim": np.mean(ssim)}


def llamagen(x, y):
    gt = (x + 1.0) / 2.0
    restored = np.clip(np.float32(127.5) * y + np.float32(128), 0, 255).astype(np.uint8).astype(np.float32) / 255.0
    psnr = [peak_signal_noise_ratio(b, a) for a, b in zip(gt, restored)]
    ssim = [structural_similarity(b, a, data_range=2.0, channel_axis=-1) for a, b in zip(gt, restored)]
    return {"psnr": np.mean(psnr), "ssim": np.mean(ssim)}


def main():
    cases = []
    for seed, case in enumerate(CASES, start=1):
        x, y = batch(1000 * seed, **case)
        figures = {"nsvq": each(rounded(x), rounded(y)), "float": each(unrounded(x), unrounded(y)),
                   "simvq": simvq(x, y), "llamagen": llamagen(x, y)}
        figures = {k: {n: float(v) for n, v in f.items()} for k, f in figures.items()}
        cases.append({**case, "seed": 1000 * seed, "figures": figures})
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
