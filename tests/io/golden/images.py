"""Makes images/ and tars/: small files and, in images/expected.txt, what Pillow reads from them.

Run with Pillow and numpy: python images.py
"""

import io
import struct
import tarfile
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

here = Path(__file__).parent
rng = np.random.default_rng(0)


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def picture(width, height, channels=3):
    """Smooth colours, an edge and some noise; no symmetry, so that every turn differs."""
    y, x = np.mgrid[0:height, 0:width].astype(float)
    planes = [127 + 120 * np.sin(x / (5 + c) + y / (9 - c) + c) for c in range(channels)]
    image = np.stack(planes, -1)
    image[: height // 3, : width // 2] *= 0.3
    image += rng.normal(0, 6, image.shape)
    return np.clip(image, 0, 255).astype(np.uint8)


def exif(orientation, order):
    mark = {"<": b"II", ">": b"MM"}[order]
    entries = struct.pack(order + "HHHI4s", 2, 0x010F, 2, 4, b"cam\0")  # maker, before orientation
    entries += struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0)
    return mark + struct.pack(order + "HI", 42, 8) + entries + bytes(4)


def jpegs():
    rgb = Image.fromarray(picture(37, 29))
    for name, options in {
        "rgb-420": {}, "rgb-422": {"subsampling": 1}, "rgb-444": {"subsampling": 0},
        "progressive": {"progressive": True}, "restart": {"restart_marker_blocks": 2},
    }.items():
        yield f"{name}.jpg", save(rgb, **options)
    for size in [(1, 1), (31, 33), (33, 31), (1, 40)]:
        yield "rgb-%dx%d.jpg" % size, save(Image.fromarray(picture(*size)))
    yield "grey.jpg", save(rgb.convert("L"))
    yield "grey-progressive.jpg", save(rgb.convert("L"), progressive=True)
    cmyk = save(Image.fromarray(picture(37, 29, 4), "CMYK"))
    yield "cmyk.jpg", cmyk
    # The numbers of cmyk.jpg, said to be YCCK: the last byte of the Adobe segment is the transform.
    adobe = cmyk.index(b"Adobe")
    yield "ycck.jpg", cmyk[: adobe + 11] + b"\2" + cmyk[adobe + 12 :]
    small = Image.fromarray(picture(13, 8))
    for orientation in range(1, 9):
        for order, suffix in (("<", "le"), (">", "be")):
            data = b"Exif\0\0" + exif(orientation, order)
            yield f"exif-{orientation}-{suffix}.jpg", save(small, exif=data)
    yield "exif-9.jpg", save(small, exif=b"Exif\0\0" + exif(9, "<"))
    yield "exif-cut.jpg", save(small, exif=(b"Exif\0\0" + exif(6, "<"))[:30])


def save(image, **options):
    out = io.BytesIO()
    image.save(out, "JPEG", quality=90, **options)
    return out.getvalue()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def rows(samples, depth):
    """Rows without filters: samples [h, w, channels] packed to `depth` bits."""
    out = b""
    for row in samples:
        if depth == 16:
            out += b"\0" + row.astype(">u2").tobytes()
        else:
            shifts = np.arange(depth - 1, -1, -1)
            bits = (row.reshape(-1, 1) >> shifts) & 1
            out += b"\0" + np.packbits(bits.astype(np.uint8)).tobytes()
    return out


def png(samples, depth, kind, before=b"", after=b"", interlaced=False):
    height, width = samples.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, int(interlaced))
    passes = [(0, 0, 1, 1)]
    if interlaced:
        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
                  (1, 0, 2, 2), (0, 1, 1, 2)]
    parts = [samples[y0::dy, x0::dx] for x0, y0, dx, dy in passes]
    data = b"".join(rows(part, depth) for part in parts if part.size)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before
            + chunk(b"IDAT", zlib.compress(data)) + after + chunk(b"IEND", b""))


def pngs():
    size = (21, 23)
    palette = chunk(b"PLTE", rng.integers(0, 256, 16 * 3, dtype=np.uint8).tobytes())
    trns = chunk(b"tRNS", bytes(range(0, 256, 16)))
    for depth in (1, 2, 4, 8, 16):
        grey = rng.integers(0, 2**depth, size + (1,))
        yield f"grey-{depth}.png", png(grey, depth, 0)
        yield f"grey-{depth}-interlaced.png", png(grey, depth, 0, interlaced=True)
        key = chunk(b"tRNS", struct.pack(">H", int(grey[0, 0, 0])))
        yield f"grey-{depth}-key.png", png(grey, depth, 0, key)
    for depth in (1, 2, 4, 8):
        index = rng.integers(0, min(2**depth, 16), size + (1,))
        colours = chunk(b"PLTE", palette[8 : 8 + 3 * min(2**depth, 16)])
        yield f"palette-{depth}.png", png(index, depth, 3, colours)
    yield "palette-trns.png", png(index, 8, 3, palette + trns)
    for depth in (8, 16):
        for name, kind, channels in (("la", 4, 2), ("rgb", 2, 3), ("rgba", 6, 4)):
            data = rng.integers(0, 2**depth, size + (channels,))
            yield f"{name}-{depth}.png", png(data, depth, kind)
    key = chunk(b"tRNS", struct.pack(">HHH", *[int(v) & 255 for v in data[0, 0, :3]]))
    data = rng.integers(0, 256, (33, 31, 3))
    yield "rgb-key.png", png(data, 8, 2, key)
    yield "rgb-interlaced.png", png(data, 8, 2, interlaced=True)
    yield "rgb-1x1.png", png(data[:1, :1], 8, 2)
    yield "rgb-1x1-interlaced.png", png(data[:1, :1], 8, 2, interlaced=True)
    small = data[:5, :7]
    yield "exif-before.png", png(small, 8, 2, before=chunk(b"eXIf", exif(6, ">")))
    yield "exif-after.png", png(small, 8, 2, after=chunk(b"eXIf", exif(8, "<")))


def webps():
    rgb, rgba = Image.fromarray(picture(37, 29)), Image.fromarray(picture(20, 31, 4), "RGBA")
    for name, image, options in (
        ("rgb.webp", rgb, {}), ("lossless.webp", rgb, {"lossless": True}),
        ("rgba.webp", rgba, {"exact": True}), ("rgba-lossless.webp", rgba, {"lossless": True, "exact": True}),
        ("rgb-1x1.webp", Image.fromarray(picture(1, 1)), {}),
        ("exif-6.webp", rgb, {"exif": exif(6, ">")}), ("exif-3-lossless.webp", rgb, {"lossless": True, "exif": exif(3, "<")}),
    ):
        out = io.BytesIO()
        image.save(out, "WEBP", quality=90, **options)
        yield name, out.getvalue()


def read(data):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if image.mode == "I;16":  # convert("RGB") would clip to 255
        image = Image.fromarray((np.array(image) >> 8).astype(np.uint8))
    return image.convert("RGB")


def tars():
    names = ["a.jpg", "cats/1.jpg", "x" * 99 + "/" + "y" * 60 + ".png", "cats/empty", "é.png"]
    for name, format in (("ustar", tarfile.USTAR_FORMAT), ("gnu", tarfile.GNU_FORMAT),
                         ("pax", tarfile.PAX_FORMAT)):
        with tarfile.open(here / "tars" / f"{name}.tar", "w", format=format) as tar:
            folder = tarfile.TarInfo("cats")
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
            for i, path in enumerate(names):
                if path == "é.png" and name == "pax":
                    path = "é" * 120 + ".png"
                info = tarfile.TarInfo(path)
                contents = b"" if path == "cats/empty" else f"file {i} ".encode() * (i * 40 + 1)
                info.size = len(contents)
                tar.addfile(info, io.BytesIO(contents))
            link = tarfile.TarInfo("link.jpg")
            link.type, link.linkname = tarfile.SYMTYPE, "a.jpg"
            tar.addfile(link)


def main():
    (here / "images").mkdir(exist_ok=True)
    (here / "tars").mkdir(exist_ok=True)
    lines = ["# file width height fnv1a-of-pixels first-pixel last-pixel"]
    for name, data in [*jpegs(), *pngs(), *webps()]:
        (here / "images" / name).write_bytes(data)
        image = read(data)
        pixels = image.tobytes()
        lines.append(f"{name} {image.width} {image.height} {fnv1a(pixels):016x} "
                     f"{pixels[:3].hex()} {pixels[-3:].hex()}")
    (here / "images" / "expected.txt").write_text("\n".join(lines) + "\n")
    tars()


main()
