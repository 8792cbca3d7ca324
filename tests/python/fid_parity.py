"""Computes FID a second time in plain PyTorch and SciPy, with the weights that `nsvq images compare --metrics fid` uses.

    run.sh fid_parity.py NSVQ                  ctest: random weights, a few pictures made here
    run.sh fid_parity.py NSVQ SHARD COUNT      by hand: the weights of the store, the first COUNT photos of a shard

The photos (128x128) are compared with copies of them halved and enlarged, by the statistics that `nsvq images statistics`
wrote of the photos; the small case also by the photos themselves, and by statistics of the same photos in shards.
"""

import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import time

import numpy as np
from PIL import Image

try:
    import torch  # noqa: F401
except ImportError:
    print("skipped: built with a torch of another Python version")
    sys.exit(77)

from eval_parity import load_file, pictures, weights_store
from plain_fid import features, frechet_distance, store_random

BATCH = 16


def halved(image):
    small = image.resize((image.width // 2, image.height // 2), Image.Resampling.BICUBIC)
    return small.resize(image.size, Image.Resampling.BICUBIC)


def made_here():
    rng = np.random.default_rng(0)
    coarse = (Image.fromarray(rng.integers(0, 256, (20, 24, 3), dtype=np.uint8)) for _ in range(5))
    return np.stack([np.asarray(image.resize((45, 37), Image.Resampling.BICUBIC)) for image in coarse])


def write(folder, images):
    folder.mkdir()
    for i, image in enumerate(images):
        image.save(folder / f"{i:05}.png")


def shards_of(folder, count):
    """The pictures of a folder in tar files, odd ones after even ones."""
    names = sorted(folder.iterdir())
    for i in range(count):
        with tarfile.open(folder.with_name(f"part-{i}.tar"), "w") as archive:
            for name in names[i::count]:
                archive.add(name, name.name)
    return folder.with_name(f"part-{{0..{count - 1}}}.tar")


def expect_near(ours, theirs, tolerance, what):
    difference = np.abs(ours - theirs).max() / np.abs(theirs).max()
    print(f"{what:34} largest difference {difference:.1e} of the largest value", flush=True)
    assert difference < tolerance, what


def main(nsvq, *given):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        store = weights_store() if given else folder / "store"
        if not given:
            store_random(store / "inception.safetensors")
        images = pictures(given[0], 128)[: int(given[1])] if given else made_here()
        others = [halved(Image.fromarray(image)) for image in images]
        write(folder / "images", map(Image.fromarray, images))
        write(folder / "others", others)

        def run(*arguments):
            environment = {**os.environ, "NSVQ_WEIGHTS": str(store)}
            subprocess.run([nsvq, *arguments], check=True, env=environment, stdout=subprocess.DEVNULL)

        begin = time.time()
        weights = load_file(store / "inception.safetensors")
        x, y = (features(weights, np.stack(each), BATCH) for each in (images, [np.asarray(o) for o in others]))
        print(f"features by Python: {time.time() - begin:.0f} s", flush=True)
        theirs = frechet_distance(x, y)
        print(f"distance by Python: {theirs:.7f}, {time.time() - begin:.0f} s", flush=True)

        sources = {"whole.npz": folder / "images"}
        if not given:
            sources["parts.npz"] = shards_of(folder / "images", 3)
        for file, data in sources.items():
            run("images", "statistics", "--data", data, "--out", folder / file)
            saved = np.load(folder / file)
            expect_near(saved["mu"], x.mean(0), 1e-5, f"{file}: mean")
            expect_near(saved["sigma"], np.cov(x, rowvar=False), 1e-4, f"{file}: covariance")
        for reference in (folder / name for name in (["whole.npz"] if given else ["parts.npz", "images"])):
            out = folder / "figures.json"
            run("images", "compare", reference, folder / "others", "--metrics", "fid", "--json", out, "--force")
            ours = json.loads(out.read_text())
            print(f"{reference.name}: {ours['images']} images, fid {ours['fid']:.7f}, Python's {theirs:.7f}, "
                  f"difference {abs(ours['fid'] / theirs - 1):.1e}", flush=True)
            assert abs(ours["fid"] / theirs - 1) < 1e-4


if __name__ == "__main__":
    main(*sys.argv[1:])
