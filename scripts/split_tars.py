#!/usr/bin/env python3
"""split_tars.py --out FOLDER SHARD.tar ...: photos to train on, to tune on and to test on, by the hash of their names.

The 2,000 images whose sha256 of `class/name` (their name in the tar) is lowest are the tune half, the next 2,000 the test
half, and all others are to train on. Writes tune.tar, test.tar and train-NN.tar of some 21 MiB, the same bytes each time.
Names must differ; an image of a name that was read before is left out, with a line."""
import argparse
import hashlib
import io
import os
import tarfile


def key(name):
    return hashlib.sha256(name.encode()).hexdigest()


def write(path, images):
    with tarfile.open(path + ".part", "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in images:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    os.rename(path + ".part", path)
    print(f"{path}: {len(images)} images")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shards", nargs="+", metavar="SHARD.tar")
    parser.add_argument("--out", required=True, metavar="FOLDER")
    parser.add_argument("--half", type=int, default=2000, help="images in the tune half and in the test half")
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    images = {}
    for shard in arguments.shards:
        with tarfile.open(shard) as tar:
            for member in tar:
                if not member.isfile():
                    continue
                if member.name in images:
                    print(f"{shard}: {member.name} was read before; left out")
                    continue
                images[member.name] = tar.extractfile(member).read()
    order, half = sorted(images, key=key), arguments.half
    if len(order) < 2 * half + 1:
        parser.error(f"{len(order)} images are too few for two halves of {half}")
    for name, names in (("tune", order[:half]), ("test", order[half : 2 * half])):
        write(f"{arguments.out}/{name}.tar", [(one, images[one]) for one in names])
        print(f"  sha256 of the last name: {key(names[-1])}")
    shards, size = [[]], 0
    for name in order[2 * half :]:
        need = 512 + (len(images[name]) + 511) // 512 * 512
        if shards[-1] and size + need > 21 * 2**20:
            shards.append([])
            size = 0
        shards[-1].append((name, images[name]))
        size += need
    for number, one in enumerate(shards):
        write(f"{arguments.out}/train-{number:02}.tar", one)


if __name__ == "__main__":
    main()
