"""Makes parts.txt: the first 64 bits of SHA-256 of names of images, by scripts/split_tars.py, and the part of data.split that
each name is in, in exact arithmetic. Run: python3 parts.py
"""

import sys
from fractions import Fraction
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "scripts"))
from split_tars import key  # noqa: E402

NAMES = [
    "n01440764/ILSVRC2012_val_00000293.JPEG",
    "cats/0001.jpg",
    "0001.jpg",
    "./cats/0001.jpg",
    "a b/c#test.png",
    "ü/ß日.webp",
    "deep/er/est/x.png",
    *(f"dead-leaves/{index:06}" for index in range(24)),
]
SPLITS = [(0.1, 0.1), (0.25, 0.0), (0.0, 0.3), (0.1, 0.2)]  # tune, test; 0.1 + 0.2 is not 0.3


def part(name, tune, test):
    share = Fraction(int(key(name)[:16], 16), 2**64)
    if share < Fraction(tune):
        return "tune"
    return "test" if share < Fraction(tune + test) else "train"


with open(HERE / "parts.txt", "w") as file:
    for name in NAMES:
        parts = " ".join(part(name, *split) for split in SPLITS)
        file.write(f"{key(name)[:16]} {parts} {name}\n")
