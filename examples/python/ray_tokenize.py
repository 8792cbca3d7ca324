"""Tokens of a folder of pictures by Ray Data, on several workers, as Parquet with the columns path and tokens:

    python examples/python/ray_tokenize.py MODEL PHOTOS OUT [--workers N]

MODEL is what nsvq.Tokenizer.from_pretrained takes. Each worker holds the model, on a GPU of its own where there is one. Needs
the packages nsvq, ray[data] and pillow. `nsvq tokenize` does the same without Ray, and decodes pictures faster.
"""

import argparse
import io

import numpy as np
import ray
import torch

import nsvq


class Encode:
    """What a worker does with a batch of files."""

    def __init__(self, model):
        torch.set_num_threads(1)  # the cores are Ray's to share out
        self.tokenizer = nsvq.Tokenizer.from_pretrained(model, device="cuda" if torch.cuda.is_available() else "cpu")

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        images = torch.cat([self.tokenizer.read(io.BytesIO(contents)) for contents in batch["bytes"]])
        return {"path": batch["path"], "tokens": self.tokenizer.encode(images).int().cpu().numpy()}


def tokenize(model, photos, workers=2, gpus=0):
    """A ray.data.Dataset of path and tokens [h, w], int32. Workers ask for half a core each: where they held all cores, Ray
    would wait for ever for one to read files with."""
    files = ray.data.read_binary_files(photos, include_paths=True, file_extensions=["jpg", "jpeg", "png", "webp"])
    return files.map_batches(Encode, fn_constructor_args=(str(model),), batch_size=32, num_cpus=0.5, num_gpus=gpus,
                             compute=ray.data.ActorPoolStrategy(size=workers))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model"), parser.add_argument("photos"), parser.add_argument("out")
    parser.add_argument("--workers", type=int, default=2)
    words = parser.parse_args()
    tokens = tokenize(words.model, words.photos, words.workers, gpus=int(torch.cuda.is_available()))
    tokens.write_parquet(words.out)
    print(tokens.stats())
