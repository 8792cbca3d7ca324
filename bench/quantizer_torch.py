"""The operators beside PyTorch eager and torch.compile, in one run.

quantizer_torch.py build/release/libnsvq_ops.so [--device cuda|cpu] [--rounds 7] [--backend inductor]

Products of PyTorch are in TF32. On a CPU the sizes are small ones, to try the script. Latents and codes are
N(0, 1/d); copies are 1,024 distinct codes, 64 of each, 0.001 apart (the method: docs/kernels.md).
"""

import argparse
import math
import statistics
import time

import torch
import torch.nn.functional as F

TAU, COMMITMENT = 0.35, 0.25
EAGER, COMPILED, OURS = "eager", "compile", "nsvq"


def distances_to(z, codebook):
    products = torch.addmm(codebook.square().sum(1), z, codebook.t(), alpha=-2)
    return products.add_(z.square().sum(1, keepdim=True))


def torch_search(z, codebook):
    return torch.addmm(codebook.square().sum(1), z, codebook.t(), alpha=-2).argmin(1)


def torch_quantizer(z, codebook):
    """Embedding, commitment and NS loss with the N x K matrix."""
    distances = distances_to(z.detach(), codebook)
    indices = distances.detach().argmin(1)
    weights = (distances.detach() * (-1 / TAU)).softmax(1).scatter_(1, indices.unsqueeze(1), 0)
    codes = codebook[indices]
    return ((codes - z.detach()).square().mean() + COMMITMENT * (z - codes.detach()).square().mean()
            + (weights * distances).sum() / z.numel())


def our_search(z, codebook):
    return torch.ops.nsvq.nearest_codes(z, codebook)[0]


def our_quantizer(z, codebook):
    """Embedding and commitment in one mean of distances, of latents with a scaled gradient: the gradients are
    those of the plain loss, its value differs."""
    scaled = z.detach().lerp(z, COMMITMENT)
    _, distances, ns = torch.ops.nsvq.ns_quantize(scaled, codebook, TAU)
    return distances.sum() / z.numel() + ns


def torch_norm(x, weight, bias):
    return F.silu(F.group_norm(x, 32, weight, bias, 1e-6))


def our_norm(x, weight, bias):
    return torch.ops.nsvq.group_norm_silu(x, weight, bias, 32, 1e-6, True)[0]


class Bench:
    def __init__(self, device, rounds, backend):
        self.device, self.rounds, self.backend = device, rounds, backend
        self.on_gpu = device == "cuda"
        self.compiled = {}

    def versions(self, plain, ours):
        if plain not in self.compiled:
            self.compiled[plain] = torch.compile(plain, dynamic=False, backend=self.backend)
        return {EAGER: plain, COMPILED: self.compiled[plain], OURS: ours}

    def milliseconds(self, work, repeats):
        if not self.on_gpu:
            start = time.perf_counter()
            for _ in range(repeats):
                work()
            return (time.perf_counter() - start) * 1e3 / repeats
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        work()  # the clock starts once it is done: what Python takes to launch the next one is not counted
        start.record()
        for _ in range(repeats):
            work()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / repeats

    def peak(self, work):
        """GiB held at a time beside what was there before."""
        if not self.on_gpu:
            work()
            return math.nan
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        torch.cuda.synchronize()
        return (torch.cuda.max_memory_allocated() - before) / 2**30

    def measure(self, works):
        """{name: (ms, GiB)}, None where memory does not suffice: medians of rounds in turns."""
        results, samples, repeats = {}, {}, {}
        for name, work in works.items():
            try:
                work()  # compiles
                results[name] = self.peak(work)
                repeats[name] = max(1, min(50, int(10 / max(self.milliseconds(work, 1), 1e-3))))
                samples[name] = []
            except torch.OutOfMemoryError:
                results[name] = None
            if self.on_gpu:
                torch.cuda.empty_cache()
        for _ in range(self.rounds):
            for name in samples:
                samples[name].append(self.milliseconds(works[name], repeats[name]))
        return {name: peak if peak is None else (statistics.median(samples[name]), peak)
                for name, peak in results.items()}

    def copy_bandwidth(self):
        """GB/s read and written."""
        source = torch.ones(2**30 if self.on_gpu else 2**26, dtype=torch.uint8, device=self.device)
        target = torch.empty_like(source)
        milliseconds = self.measure({"copy": lambda: target.copy_(source)})["copy"][0]
        return 2 * source.numel() / milliseconds / 1e6


def cell(result):
    if result is None:
        return "out of memory"
    milliseconds, peak = result
    return f"{milliseconds:.3f} ms" + ("" if math.isnan(peak) else f", {peak:.2f} GiB")


def print_row(title, results, reached):
    cells = [cell(results[name]) for name in (EAGER, COMPILED, OURS)]
    print(f"| {title} | {' | '.join(cells)} | {reached} |", flush=True)


def teraflops(products, sizes, results):
    n, k, d = sizes
    return f"{2e-9 * products * n * k * d / results[OURS][0]:.3g} TFLOP/s"


def codes_of(sizes, device, copies=False):
    n, k, d = sizes
    generator = torch.Generator(device).manual_seed(0)

    def normal(rows):
        return torch.randn(rows, d, device=device, generator=generator) * d**-0.5

    z = normal(n)
    codebook = normal(k // 64).repeat(64, 1) if copies else normal(k)
    if copies:
        codebook += torch.randn(codebook.shape, device=device, generator=generator) * 1e-3
    return z, codebook


def quantizer_row(bench, sizes, title, copies=False):
    z, codebook = (one.requires_grad_() for one in codes_of(sizes, bench.device, copies))
    versions = bench.versions(torch_quantizer, our_quantizer)
    works = {name: lambda loss=loss: torch.autograd.grad(loss(z, codebook), (z, codebook))
             for name, loss in versions.items()}
    results = bench.measure(works)
    print_row(title, results, teraflops(3, sizes, results))
    if results[EAGER] is not None and not copies:
        # They compute the same, but for the winners of near ties, which TF32 does not always find.
        for ours, theirs in zip(works[OURS](), works[EAGER]()):
            error = ((ours - theirs).norm() / theirs.norm()).item()
            assert error < 0.2, f"{title}: gradients differ by {error}"


def search_row(bench, sizes, title, copies=False):
    z, codebook = codes_of(sizes, bench.device, copies)
    works = {name: lambda search=search: search(z, codebook)
             for name, search in bench.versions(torch_search, our_search).items()}
    results = bench.measure(works)
    print_row(title, results, teraflops(1, sizes, results))


def norm_rows(bench, shape, title, bandwidth):
    x = torch.randn(shape, device=bench.device).bfloat16().to(memory_format=torch.channels_last)
    gradient, leaves = torch.randn_like(x), [x.requires_grad_()]
    leaves += [torch.ones(shape[1], device=bench.device, dtype=x.dtype, requires_grad=True) for _ in range(2)]
    versions = bench.versions(torch_norm, our_norm).items()
    fixed = [one.detach() for one in leaves]
    forward = bench.measure({name: lambda norm=norm: norm(*fixed) for name, norm in versions})
    both = bench.measure({name: lambda norm=norm: torch.autograd.grad(norm(*leaves), leaves, gradient)
                          for name, norm in versions})
    backward = {name: (both[name][0] - forward[name][0], both[name][1]) for name in both}
    for what, results, passes in (("forward", forward, 3), ("backward", backward, 5)):
        rate = passes * x.nbytes / results[OURS][0] / 1e6
        print_row(f"{title}, {what}", results,
                  f"{rate:.0f} GB/s at {passes} passes, {100 * rate / bandwidth:.0f} % of a copy")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--backend", default="inductor", help="of torch.compile")
    arguments = parser.parse_args()
    torch.ops.load_library(arguments.library)
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    bench = Bench(arguments.device, arguments.rounds, arguments.backend)
    gpu = bench.on_gpu
    started = time.perf_counter()
    bandwidth = bench.copy_bandwidth()
    print(f"{torch.cuda.get_device_name() if gpu else 'cpu'}, torch {torch.__version__}, medians of "
          f"{bench.rounds} rounds in turns; a copy reads and writes {bandwidth:.0f} GB/s\n")
    print("| d 128 | PyTorch eager | torch.compile | nsvq | nsvq reaches |\n|---|---|---|---|---|")
    base = (8192, 65536, 128) if gpu else (256, 2048, 128)
    more_latents, more_codes = (4 * base[0], *base[1:]), (base[0], 16 * base[1], base[2])
    named = {sizes: f"N {sizes[0]:,}, K {sizes[1]:,}" for sizes in (base, more_latents, more_codes)}
    quantizer_row(bench, base, f"NS forward + backward, {named[base]}")
    search_row(bench, base, f"search, {named[base]}")
    quantizer_row(bench, more_latents, f"NS forward + backward, {named[more_latents]}")
    quantizer_row(bench, more_codes, f"NS forward + backward, {named[more_codes]}")
    quantizer_row(bench, base, f"NS forward + backward, {named[base]}, copies", copies=True)
    search_row(bench, base, f"search, {named[base]}, copies", copies=True)
    shape = (32, 128, 128, 128) if gpu else (2, 64, 16, 16)
    norm_rows(bench, shape, f"group_norm_silu, {'x'.join(map(str, shape))} bf16", bandwidth)
    print(f"\n{time.perf_counter() - started:.0f} s in all, with compilation")


if __name__ == "__main__":
    main()
