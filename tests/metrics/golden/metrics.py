"""Writes metrics.json: PSNR and SSIM of scikit-image for images that the C++ test draws alike."""

import json
import pathlib

import numpy as np
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

# Images, height, width, and how far reconstructions are off: up to `noise` of 255.
CASES = [
    {"shape": [1, 7, 7], "noise": 40},
    {"shape": [3, 33, 47], "noise": 12},
    {"shape": [2, 31, 8], "noise": 255},
    {"shape": [2, 64, 65], "noise": 1},
]


def draw(seed, count):
    """SplitMix64, in [0, 1)."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def pixels(seed, shape, noise):
    """Images with a ramp, a step and noise, and reconstructions off by up to `noise`."""
    b, h, w = shape
    index = np.arange(b * 3 * h * w).reshape(b, 3, h, w)
    column = index % w
    values = column * 100 // w + 50 * (column > w // 2)
    size = index.size
    values = values + np.floor(60 * draw(seed, size)).astype(np.int64).reshape(index.shape)
    shift = np.floor((2 * noise + 1) * draw(seed + 1, size)).astype(np.int64) - noise
    return values, np.clip(values + shift.reshape(index.shape), 0, 255)


def main():
    cases = []
    for seed, case in enumerate(CASES, start=1):
        x, y = (p / 255.0 for p in pixels(100 * seed, **case))
        psnr = [peak_signal_noise_ratio(a, b, data_range=1) for a, b in zip(x, y)]
        ssim = [structural_similarity(a, b, channel_axis=0, data_range=1) for a, b in zip(x, y)]
        cases.append({**case, "seed": 100 * seed, "psnr": np.mean(psnr), "ssim": np.mean(ssim),
                      "psnr_pooled": peak_signal_noise_ratio(x, y, data_range=1)})
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
