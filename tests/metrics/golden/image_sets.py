"""Writes image_sets.json beside itself: figures of sets of images by their formulas, written out in numpy, for values
that the C++ test draws alike.

    python image_sets.py        needs numpy

"inception_score" goes from logits to mean and deviation over splits; "precision_recall" from vectors to both shares,
with every distance between two vectors by its differences; "tensorflow_resize" is TensorFlow's bilinear resize of 2015
(no pixel centres), one output pixel at a time.
"""

import json
import math
import pathlib

import numpy as np

MASK = 2**64 - 1
STEP = 0x9E3779B97F4A7C15
SPLITS = 10
NEIGHBOURS = 3


def scramble(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def draw(name, count):
    """`draw` of tests/nn/golden/autoencoder.py, without torch."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 & MASK
    numbers = (scramble((seed + (i + 1) * STEP) & MASK) >> 11 for i in range(count))
    return 2 * np.fromiter(numbers, dtype=np.float64, count=count) * 2.0**-53 - 1


def splits_of_ten(number):
    """The splits of images 10 * number and the next nine: a shuffle by SplitMix64."""
    state = scramble(STEP ^ scramble((number + STEP) & MASK))
    order = list(range(SPLITS))
    for i in range(SPLITS - 1, 0, -1):
        state = (state + STEP) & MASK
        j = scramble(state) % (i + 1)
        order[i], order[j] = order[j], order[i]
    return order


def inception_score(images, classes):
    logits = 4 * draw("logits", images * classes).reshape(images, classes)
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    split = np.array([splits_of_ten(i // SPLITS)[i % SPLITS] for i in range(images)])
    scores = []
    for number in range(SPLITS):
        part = p[split == number]
        divergence = (part * (np.log(part) - np.log(part.mean(0)))).sum(1)
        scores.append(math.exp(divergence.mean()))
    return {"images": images, "classes": classes, "mean": np.mean(scores), "std": np.std(scores)}


def distances(x, y):
    return np.array([[np.square(a - b).sum() for b in y] for a in x])


def radii(x):
    all_distances = distances(x, x)
    np.fill_diagonal(all_distances, np.inf)
    return np.sort(all_distances, axis=1)[:, NEIGHBOURS - 1]


def vectors(name, count, channels, levels, shift):
    """In [-1, 1), or whole numbers of so many levels, which tie."""
    x = draw(name, count * channels).reshape(count, channels)
    return shift + (np.floor((x + 1) / 2 * levels) if levels else x)


def precision_recall(counts, channels, levels, shift):
    images = vectors("images", counts[0], channels, levels, 0)
    made = vectors("made", counts[1], channels, levels, shift)
    between = distances(images, made)
    return {"counts": counts, "channels": channels, "levels": levels, "shift": shift,
            "precision": (between <= radii(images)[:, None]).any(0).mean(),
            "recall": (between <= radii(made)[None, :]).any(1).mean()}


def tensorflow_resize(height, width, size=299, samples=64):
    pixels = np.floor(128 * (draw("pixels", height * width) + 1)).reshape(height, width)

    def neighbours(i, count):
        at = np.float32(i) * (np.float32(count) / np.float32(size))
        low = int(at)
        return low, min(low + 1, count - 1), float(at - np.float32(low))

    out = np.empty((size, size))
    for y in range(size):
        top, bottom, down = neighbours(y, height)
        for x in range(size):
            left, right, across = neighbours(x, width)
            above = pixels[top, left] + (pixels[top, right] - pixels[top, left]) * across
            below = pixels[bottom, left] + (pixels[bottom, right] - pixels[bottom, left]) * across
            out[y, x] = above + (below - above) * down
    out = (out - 128) / 128
    places = np.linspace(0, size * size - 1, samples).astype(int)
    return {"height": height, "width": width, "mean": out.mean(), "places": places.tolist(),
            "values": out.flatten()[places].tolist()}


def main():
    golden = {
        "inception_score": [inception_score(*case) for case in ((10, 3), (31, 7), (233, 33))],
        "precision_recall": [precision_recall(*case) for case in (
            ([4, 4], 1, 0, 0), ([31, 33], 5, 0, 0.25), ([65, 40], 8, 0, 0), ([33, 31], 2, 9, 4), ([70, 129], 3, 6, 2),
            ([9, 30], 1, 12, 3), ([40, 33], 3, 4, 2),
        )],
        "tensorflow_resize": [tensorflow_resize(*case) for case in ((1, 1), (5, 7), (33, 331), (299, 299), (256, 64))],
    }
    lines = [f"{json.dumps(key)}: [\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]"
             for key, cases in golden.items()]
    pathlib.Path(__file__).with_suffix(".json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
