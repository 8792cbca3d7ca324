"""The search and the NS quantizer with its gradient by several GPU paths, beside PyTorch eager in the same run:

gpu_paths.py LIBRARY [--paths hopper,sm80,sm86,blocked] [--rounds 5] [--sizes NxKxD,...] [--device cuda] [--out FILE.csv]

LIBRARY is libnsvq_ops.so. PyTorch makes the N x K matrix, with products in TF32. Medians of rounds, by events of the GPU.
"""

import argparse
import csv
import os
import statistics
import sys
import time

import torch

TAU = 0.35
SIZES = "8192x65536x128,8192x8192x64,8192x65536x256,32768x65536x128,8192x1024x32,256x65536x128,1x16384x64"


def torch_search(z, codes):
    return torch.addmm(codes.square().sum(1), z, codes.t(), alpha=-2).argmin(1)


def torch_quantizer(z, codes):
    constant = z.detach()
    squares = torch.addmm(codes.square().sum(1), constant, codes.t(), alpha=-2).add_(constant.square().sum(1, keepdim=True))
    winners = squares.detach().argmin(1)
    weights = (squares.detach() * (-1 / TAU)).softmax(1).scatter_(1, winners.unsqueeze(1), 0)
    chosen = codes[winners]
    vq = (chosen - constant).square().mean() + 0.25 * (z - chosen.detach()).square().mean()
    return vq + (weights * squares).sum() / z.numel()


def our_quantizer(z, codes):
    _, distances, ns = torch.ops.nsvq.ns_quantize(z.detach().lerp(z, 0.25), codes, TAU)
    return distances.sum() / z.numel() + ns


def once(work, device):
    """Milliseconds."""
    if device == "cpu":
        start = time.perf_counter()
        work()
        return 1e3 * (time.perf_counter() - start)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def milliseconds(work, o):
    work()
    repeats = max(1, min(50, int(10 / max(once(work, o.device), 1e-3))))
    return statistics.median(once(lambda: [work() for _ in range(repeats)], o.device) / repeats for _ in range(o.rounds))


def measure(n, k, d, o):
    """{path or torch: (search, quantizer with backward)}"""
    generator = torch.Generator(o.device).manual_seed(0)
    z, codes = (torch.randn(rows, d, device=o.device, generator=generator) * d**-0.5 for rows in (n, k))
    leaves = z.clone().requires_grad_(), codes.clone().requires_grad_()

    def both(search, quantizer):
        return milliseconds(lambda: search(z, codes), o), milliseconds(lambda: torch.autograd.grad(quantizer(*leaves), leaves), o)

    found = {"torch": both(torch_search, torch_quantizer)}
    for path in o.paths.split(","):
        os.environ["NSVQ_GPU_PATH"] = path
        found[path] = both(torch.ops.nsvq.nearest_codes, our_quantizer)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    for name, default in (("paths", "hopper,sm80,sm86,blocked"), ("rounds", 5), ("sizes", SIZES), ("device", "cuda"), ("out", "")):
        parser.add_argument(f"--{name}", default=default, type=type(default))
    o = parser.parse_args()
    torch.ops.load_library(o.library)
    torch.backends.cuda.matmul.allow_tf32 = True
    table = csv.writer(open(o.out, "w", newline="") if o.out else sys.stdout, lineterminator="\n")
    table.writerow(["N", "K", "d", "path", "search_ms", "torch_search_by_ours", "ns_quantize_backward_ms", "torch_by_ours"])
    for size in o.sizes.split(","):
        n, k, d = map(int, size.split("x"))
        found = measure(n, k, d, o)
        for path, (search, quantizer) in found.items():
            ratios = found["torch"][0] / search, found["torch"][1] / quantizer
            table.writerow([n, k, d, path, f"{search:.3f}", f"{ratios[0]:.2f}", f"{quantizer:.3f}", f"{ratios[1]:.2f}"])


if __name__ == "__main__":
    main()
