"""Convolutions of the quickstart's size in PyTorch on this CPU, by implementation.

    python bench/convolution.py [THREADS]

Prints GFLOP/s of forward and backward. On aarch64 nsvq trains without oneDNN and
NNPACK because of this table.
"""

import platform
import sys
import time

import torch


def rates(channels, size, batch=32, repeats=5):
    convolution = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
    x = torch.randn(batch, channels, size, size, requires_grad=True)
    flops = 2 * 9 * channels * channels * size * size * batch
    forward, backward = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        y = convolution(x)
        middle = time.perf_counter()
        y.backward(torch.ones_like(y))
        forward.append(middle - start)
        backward.append(time.perf_counter() - middle)
    return flops / min(forward) / 1e9, 2 * flops / min(backward) / 1e9


torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else torch.get_num_threads())
print(f"{platform.machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads")
print(f"{'channels @ size':>16} {'oneDNN':>16} {'NNPACK':>16} {'own':>16}   (forward / backward, GFLOP/s)")
for channels, size in [(12, 64), (24, 32), (24, 16), (48, 8), (64, 32), (128, 16)]:
    cells = []
    for onednn, nnpack in ((True, False), (False, True), (False, False)):
        with torch.backends.mkldnn.flags(enabled=onednn), torch.backends.nnpack.flags(enabled=nnpack):
            cells.append("{:7.0f} / {:6.0f}".format(*rates(channels, size)))
    print(f"{channels:>9} @ {size:>4} " + " ".join(f"{cell:>16}" for cell in cells))
