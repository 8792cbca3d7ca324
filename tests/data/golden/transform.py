"""Makes transform.txt: hashes of what Pillow's BILINEAR resize and torchvision's crops give.

Run with Pillow and numpy: python transform.py
"""

from pathlib import Path

import numpy as np
from PIL import Image


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def picture(width, height, kind):
    """Noise that the test makes too; of kind 1 only black and white."""
    state, values = width * 65537 + height, []
    for _ in range(width * height * 3):
        state = (state * 1664525 + 1013904223) % 2**32
        values.append(state >> 24)
    pixels = np.array(values, np.uint8).reshape(height, width, 3)
    return pixels if kind == 0 else (pixels > 127).astype(np.uint8) * 255


def resize(pixels, width, height):
    # In two steps, because Pillow 13 changed the order of the passes for tall images; older ones,
    # which published results were made with, always resize the rows first.
    image = Image.fromarray(pixels)
    image = image.resize((width, image.height), Image.BILINEAR)
    return np.array(image.resize((width, height), Image.BILINEAR))


def center_example(pixels, size):
    """torchvision's Resize(size), CenterCrop(size), then x / 127.5 - 1 as [3, size, size]."""
    height, width = pixels.shape[:2]
    short, long = min(width, height), max(width, height)
    new_long = int(size * long / short)
    width, height = (size, new_long) if width <= height else (new_long, size)
    pixels = resize(pixels, width, height)
    top, left = int(round((height - size) / 2.0)), int(round((width - size) / 2.0))
    pixels = pixels[top : top + size, left : left + size]
    return np.ascontiguousarray((pixels / 127.5 - 1.0).astype("<f4").transpose(2, 0, 1))


def cover_example(pixels, out_height, out_width):
    """Resized to cover out_height x out_width, centre cropped, as [3, out_height, out_width]."""
    height, width = pixels.shape[:2]
    if out_width * height >= out_height * width:
        width, height = out_width, int(out_width * height / width)
    else:
        width, height = int(out_height * width / height), out_height
    pixels = resize(pixels, width, height)
    top, left = int(round((height - out_height) / 2.0)), int(round((width - out_width) / 2.0))
    pixels = pixels[top : top + out_height, left : left + out_width]
    return np.ascontiguousarray((pixels / 127.5 - 1.0).astype("<f4").transpose(2, 0, 1))


SIZES = [(1, 1), (31, 33), (33, 31), (64, 48), (150, 20), (17, 170), (1, 33), (33, 1), (119, 68)]
FACTORS = [1.3, 3.7, 17, 1 / 1.3, 1 / 3.7]


def main():
    lines = ["# resize width height kind to-width to-height fnv1a-of-bytes"]
    for i, (width, height) in enumerate(SIZES):
        targets = [(max(1, int(width / f)), max(1, int(height / f))) for f in FACTORS]
        targets += [(width, 31), (31, height), (33, 1), (1, 33), (width, height)]
        for to_width, to_height in targets:
            out = resize(picture(width, height, i % 2), to_width, to_height)
            lines.append(f"resize {width} {height} {i % 2} {to_width} {to_height} "
                         f"{fnv1a(out.tobytes()):016x}")
    lines.append("# center width height kind size fnv1a-of-floats")
    for i, (width, height) in enumerate(SIZES + [(34, 33), (36, 33), (35, 33), (33, 37)]):
        for size in (1, 16, 31, 33):
            out = center_example(picture(width, height, i % 2), size)
            lines.append(f"center {width} {height} {i % 2} {size} {fnv1a(out.tobytes()):016x}")
    lines.append("# cover width height kind out-height out-width fnv1a-of-floats")
    for i, (width, height) in enumerate(SIZES):
        for out_height, out_width in [(16, 31), (31, 16), (33, 32), (1, 7), (24, 24)]:
            out = cover_example(picture(width, height, i % 2), out_height, out_width)
            lines.append(f"cover {width} {height} {i % 2} {out_height} {out_width} "
                         f"{fnv1a(out.tobytes()):016x}")
    (Path(__file__).parent / "transform.txt").write_text("\n".join(lines) + "\n")


main()
