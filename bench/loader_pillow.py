"""Images per second of the same work with Pillow in one process: loader_pillow.py TAR_GLOB [SIZE=128]"""

import glob
import io
import sys
import tarfile
import time

import numpy as np
from PIL import Image, ImageOps


def load(data, size):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    width, height = image.size
    if width < height:
        image = image.resize((size, int(size * height / width)), Image.BILINEAR)
    else:
        image = image.resize((int(size * width / height), size), Image.BILINEAR)
    left, top = round((image.width - size) / 2), round((image.height - size) / 2)
    image = image.crop((left, top, left + size, top + size))
    pixels = np.asarray(image, dtype=np.float32) / np.float32(127.5) - np.float32(1)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def run_pass(shards, size, batch_size=32):
    images, batch = 0, []
    for shard in shards:
        with tarfile.open(shard) as tar:
            for entry in tar:
                batch.append(load(tar.extractfile(entry).read(), size))
                images += 1
                if len(batch) == batch_size:
                    np.stack(batch)
                    batch = []
    return images


def main():
    shards = sorted(glob.glob(sys.argv[1]))
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 128
    run_pass(shards, size)  # fills the page cache
    start, cpu_start, images = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - start < 5:
        images += run_pass(shards, size)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    print(f"{images / seconds:.0f} images/s, {images / cpu_seconds:.0f} per CPU second")


main()
