"""Writes frechet.json beside itself: distances by pytorch-fid's formula between sets that the C++ test draws alike.

    python frechet.py        needs numpy, scipy and pytorch-fid==0.3.0 (with torch and torchvision)

"pytorch_fid" is calculate_frechet_distance on np.mean and np.cov. "from_data" needs no covariance: the
trace of the root is the sum of the singular values of X1 X2^T, which holds all digits whatever the rank.
"""

import json
import pathlib
import sys

import numpy as np
from pytorch_fid.fid_score import calculate_frechet_distance

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "nn" / "golden"))
from autoencoder import draw

# Channels, vectors in each set, and a mean that is large beside the deviation.
CASES = [
    (1, [9, 12], 0),
    (7, [400, 333], 0),
    (32, [500, 700], 0),
    (9, [101, 75], 1000),
    (64, [20, 33], 0),
    (48, [2, 5], 0),
    (40, [30, 900], 0),
]


def features(name, count, channels, offset):
    """Correlated vectors whose channels have deviations from about 1 down to about 1/8."""
    mixed = draw(name, count * channels).reshape(count, channels)
    mixed = mixed @ draw(name + " mix", channels * channels).reshape(channels, channels)
    scale = 2.0 ** (-3 * np.arange(channels) / channels)
    return mixed * scale / np.sqrt(channels / 3) + draw(name + " mean", channels) + offset


def from_data(x, y):
    a, b = ((z - z.mean(0)) / np.sqrt(len(z) - 1) for z in (x, y))
    root = np.linalg.svd(a @ b.T, compute_uv=False).sum()
    return np.sum((x.mean(0) - y.mean(0)) ** 2) + np.sum(a**2) + np.sum(b**2) - 2 * root


def golden(channels, counts, offset):
    x, y = (features(name, count, channels, offset) for name, count in zip("xy", counts))
    statistics = [np.mean(x, axis=0), np.cov(x, rowvar=False), np.mean(y, axis=0), np.cov(y, rowvar=False)]
    return {"channels": channels, "counts": counts, "offset": offset,
            "pytorch_fid": float(calculate_frechet_distance(*statistics)), "from_data": float(from_data(x, y))}


def main():
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text("[\n" + ",\n".join(json.dumps(golden(*case)) for case in CASES) + "\n]\n")


if __name__ == "__main__":
    main()
