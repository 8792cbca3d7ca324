"""The Python package beside vector-quantize-pytorch and plain torch, forward and backward, eager and compiled.

python bench/python.py [--device cuda|cpu] [--rounds 5] [--out FILE.csv] [--only TEXT] [--sizes KxD,...]

Needs nsvq installed or on PYTHONPATH (docs/python.md) and `pip install vector-quantize-pytorch`. Both quantizers have their
default arguments but for `dim` and `codebook_size`: running means and the rotation trick. Plain torch makes the N x K matrix
and one-hot codes. Wall time of a call that waits for the device, medians of rounds in turns; memory is what a call holds
beside its inputs. At the end the Python layer's own time a call.
"""

import argparse
import csv
import math
import platform
import sys
import time

import torch

import nsvq
from quantizer_torch import Bench, codes_of, distances_to, torch_search

TAU, COMMITMENT, DECAY = 0.35, 1.0, 0.8
CPU_SIZES = [(1024, 8), (1024, 64), (16384, 64)]
GPU_SIZES = [(k, d) for k in (1024, 16384, 65536, 1048576) for d in (8, 64, 256)]
LATENTS = 8192


class Wall(Bench):
    """Times and memory as a caller sees them."""

    def wait(self):
        if self.on_gpu:
            torch.cuda.synchronize()

    def milliseconds(self, work, repeats):
        self.wait()
        start = time.perf_counter()
        for _ in range(repeats):
            work()
        self.wait()
        return (time.perf_counter() - start) * 1e3 / repeats

    def measure(self, works):
        """Without what another implementation cannot do here, which is said: torch.compile may lack a compiler."""
        for name, work in list(works.items()):
            try:
                work()
            except torch.OutOfMemoryError:
                pass
            except Exception as error:
                if "nsvq" in name:
                    raise
                print(f"{', '.join(name)}: {type(error).__name__}: {str(error).strip().splitlines()[0]}", file=sys.stderr)
                works.pop(name)
        return super().measure(works)

    def peak(self, work):
        """GiB beside what was there before; on a CPU by the process's greatest size, which Linux can reset."""
        if self.on_gpu:
            return super().peak(work)
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
        except OSError:
            return math.nan
        before = resident("VmRSS")
        work()
        return max(0, resident("VmHWM") - before) / 2**20


def resident(name):
    """KiB by /proc/self/status."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))


class PlainVQ(torch.nn.Module):
    """VQ with running means, as it is commonly written: the N x K matrix, one-hot codes, the straight-through estimator."""

    def __init__(self, codebook):
        super().__init__()
        self.register_buffer("codes", codebook.clone())
        self.register_buffer("sizes", torch.ones(len(codebook), device=codebook.device))
        self.register_buffer("means", codebook.clone())

    def forward(self, x):
        flat = x.flatten(0, -2)
        with torch.no_grad():
            indices = torch_search(flat, self.codes)
            if self.training:
                chosen = torch.nn.functional.one_hot(indices, len(self.codes)).type_as(flat)
                self.sizes.lerp_(chosen.sum(0), 1 - DECAY)
                self.means.lerp_(chosen.t() @ flat, 1 - DECAY)
                self.codes.copy_(self.means / self.sizes.clamp_min(1e-5)[:, None])
        codes = self.codes[indices].view_as(x)
        loss = COMMITMENT * (x - codes.detach()).square().mean()
        return x + (codes - x).detach(), indices.view(x.shape[:-1]), loss


def plain_ns_loss(x, codes):
    distances = distances_to(x, codes)
    winners = distances.detach().argmin(1, keepdim=True)
    weights = (distances.detach() / -TAU).softmax(1).scatter(1, winners, 0)
    return (weights * distances).sum() / x.numel()


def theirs(bench, k, d):
    try:
        from vector_quantize_pytorch import VectorQuantize
    except ImportError:
        sys.exit("bench/python.py: pip install vector-quantize-pytorch, or --only nearest or --only ns")
    return VectorQuantize(dim=d, codebook_size=k).to(bench.device)


def compiled(bench, function):
    return torch.compile(function, dynamic=False, backend=bench.backend)


def quantizer_works(bench, k, d):
    """{(pass, implementation, mode): work}"""
    x, codebook = (one.clone() for one in codes_of((LATENTS, k, d), bench.device))
    x = x.view(8, -1, d)
    leaf, works = x.clone().requires_grad_(), {}
    makers = {"nsvq": lambda: nsvq.VectorQuantize(dim=d, codebook_size=k).to(bench.device),
              "vector-quantize-pytorch": lambda: theirs(bench, k, d), "torch": lambda: PlainVQ(codebook)}
    for name, make in makers.items():
        for mode in ("eager", "compiled"):
            training, fixed = make().train(), make().eval()
            if mode == "compiled":
                training, fixed = (compiled(bench, one) for one in (training, fixed))

            def forward(module=fixed):
                with torch.no_grad():
                    return module(x)

            def both(module=training):
                quantized, _, loss = module(leaf)
                return torch.autograd.grad(quantized.square().mean() + loss.sum(), leaf)

            works["forward, eval", name, mode], works["forward + backward", name, mode] = forward, both
    return works


def ns_works(bench, k, d):
    x, codes = codes_of((LATENTS, k, d), bench.device)
    codes.requires_grad_()
    losses = {("nsvq", "eager"): lambda: nsvq.ns_loss(x, codes, TAU), ("torch", "eager"): lambda: plain_ns_loss(x, codes)}
    fast = compiled(bench, plain_ns_loss)
    losses["torch", "compiled"] = lambda: fast(x, codes)
    return {("forward + backward", *name): lambda loss=loss: torch.autograd.grad(loss(), codes)
            for name, loss in losses.items()}


def nearest_works(bench, k, d):
    x, codes = codes_of((LATENTS, k, d), bench.device)
    fast = compiled(bench, torch_search)
    works = {("nsvq", "eager"): lambda: nsvq.nearest(x, codes), ("torch", "eager"): lambda: torch_search(x, codes),
             ("torch", "compiled"): lambda: fast(x, codes)}
    return {("forward", *name): work for name, work in works.items()}


FAMILIES = {"nearest": nearest_works, "ns_loss": ns_works, "VectorQuantize": quantizer_works}


def microseconds(bench, work, calls=2000):
    work()
    return 1e3 * min(bench.milliseconds(work, calls) for _ in range(5))


def overhead(bench, only):
    """us a call of the Python layer beside the operator that it calls, for inputs that take no time; no gradients."""
    x, codes = torch.randn(4, 8, device=bench.device), torch.randn(16, 8, device=bench.device)
    pairs = {"nearest": (lambda: nsvq.nearest(x, codes), lambda: torch.ops.nsvq.nearest_codes(x, codes)),
             "ns_loss": (lambda: nsvq.ns_loss(x, codes, TAU), lambda: torch.ops.nsvq.ns_quantize(x, codes, TAU))}
    if only in "VectorQuantize":
        module, rows = nsvq.VectorQuantize(dim=8, codebook_size=16).to(bench.device).eval(), x[None]
        pairs["VectorQuantize"] = (lambda: module(rows), lambda: torch.ops.nsvq.nearest_codes(x, codes))
    with torch.no_grad():
        for name, (layer, operator) in pairs.items():
            if only in name:
                ours, plain = microseconds(bench, layer), microseconds(bench, operator)
                yield name, ours, plain


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cuda", "cpu"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", help="file for the table, which is CSV; else it is printed")
    parser.add_argument("--only", default="", help="of nearest, ns_loss, VectorQuantize")
    parser.add_argument("--sizes", help="codes x components: 1024x64,65536x256")
    parser.add_argument("--backend", default="inductor", help="of torch.compile")
    given = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    bench = Wall(given.device, given.rounds, given.backend)
    sizes = GPU_SIZES if bench.on_gpu else CPU_SIZES
    if given.sizes:
        sizes = [tuple(map(int, one.split("x"))) for one in given.sizes.split(",")]
    machine = torch.cuda.get_device_name() if bench.on_gpu else f"{platform.machine()}, {torch.get_num_threads()} threads"
    print(f"{machine}, torch {torch.__version__}, N {LATENTS}, medians of {given.rounds} rounds")
    table = csv.writer(open(given.out, "w", 1, newline="") if given.out else sys.stdout, lineterminator="\n")
    table.writerow(["what", "pass", "K", "d", "implementation", "mode", "ms", "GiB", "of nsvq's ms"])
    for family, works_of in FAMILIES.items():
        if given.only not in family:
            continue
        for k, d in sizes:
            torch.manual_seed(0)
            torch._dynamo.reset()
            works = works_of(bench, k, d)
            for of in dict.fromkeys(name[0] for name in works):
                results = bench.measure({name: work for name, work in works.items() if name[0] == of})
                base = results[of, "nsvq", "eager"]
                for (_, implementation, mode), result in results.items():
                    took, held = result or (math.nan, math.nan)  # memory does not suffice
                    table.writerow([family, of, k, d, implementation, mode, f"{took:.4g}", f"{held:.3g}",
                                    f"{took / base[0]:.3g}"])
            del works
    for name, ours, plain in overhead(bench, given.only):
        print(f"{name}: {ours:.1f} us a call, its operator {plain:.1f} us, the Python layer {ours - plain:.1f} us")


if __name__ == "__main__":
    main()
