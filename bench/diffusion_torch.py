"""Latent diffusion in PyTorch by torch.compile: what `nsvq_bench diffusion` stands beside.

diffusion_torch.py [--device cuda|cpu] [--batch 128] [--samples 256] [--steps 50] [--width 256] [--channels 128]
                   [--side 16] [--rounds 20] [--backend inductor] [--seconds 200] [--nsvq FILE.json]

The paper's U-Net (tests/nn/golden/unet.py, 258,304,640 parameters, attention by scaled_dot_product_attention),
channels-last, bf16 autocast, fused AdamW, weights averaged with decay min(0.9999, (1 + n) / (10 + n)), latents random
and on the device. A step draws times and noise, and its forward and backward pass are compiled; it is timed as
PyTorch launches it and as one CUDA graph. Sampling is DDIM at eta 0 with weights cast to bf16 once, a compiled network
per step, timed without CUDA graphs, and with its own one per step. The fastest of each stands in the
last lines, with ratios to the figures of `nsvq_bench diffusion --json FILE.json`. What does not fit into --seconds is
left out.
"""

import argparse
import contextlib
import json
import math
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "nn" / "golden"))
import unet

START = time.perf_counter()


class Attention(unet.Attention):
    def forward(self, x, embedding=None):
        b, c, h, w = x.shape
        tokens = self.norm(x).flatten(2).transpose(1, 2)
        parts = F.linear(tokens, self.qkv.weight.squeeze(2), self.qkv.bias)
        q, k, v = (one.transpose(1, 2) for one in parts.unflatten(2, (self.heads, 3, -1)).unbind(3))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        mixed = F.linear(mixed, self.proj_out.weight.squeeze(2), self.proj_out.bias)
        return x + mixed.transpose(1, 2).unflatten(2, (h, w))


def time_embedding(times, width):
    """On the device, so that it can be captured."""
    waves = torch.arange(width // 2, dtype=torch.float64, device=times.device)
    angles = times.double()[:, None] * torch.exp(-math.log(10000) * waves / (width // 2))
    return torch.cat([torch.cos(angles), torch.sin(angles)], dim=1)


def make_unet(options):
    plain, unet.Attention = unet.Attention, Attention
    unet.time_embedding = time_embedding
    try:
        model = unet.Unet({"width": options.width}, options.channels)
    finally:
        unet.Attention = plain
    return model.to(options.device, memory_format=torch.channels_last)


def check_attention():
    """The network with scaled_dot_product_attention is the one written out."""
    torch.manual_seed(0)
    ours = make_unet(argparse.Namespace(width=16, channels=4, device="cpu"))
    plain = unet.Unet({"width": 16}, 4)
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    plain.load_state_dict(ours.state_dict())
    x, times = torch.randn(2, 4, 8, 8), torch.tensor([3, 700])
    torch.testing.assert_close(ours(x, times), plain(x, times), rtol=1e-3, atol=1e-4)


def abar_of(options):
    return torch.linspace(1e-4, 2e-2, 1000, dtype=torch.float64, device=options.device).neg().add(1).cumprod(0)


def casting(options):
    return torch.autocast(options.device, torch.bfloat16)


class Training:
    def __init__(self, options):
        self.options, device = options, options.device
        self.model = make_unet(options)
        self.weights = list(self.model.parameters())
        self.average = [one.detach().clone() for one in self.weights]
        self.adam = torch.optim.AdamW(self.weights, lr=1e-4, weight_decay=0, fused=True, capturable=device == "cuda")
        abar = abar_of(options)
        self.signal, self.noise = abar.sqrt().float(), (1 - abar).sqrt().float()
        shape = (options.batch, options.channels, options.side, options.side)
        self.latents = torch.randn(shape, device=device).to(torch.bfloat16)
        self.count = 0
        self.loss = torch.compile(self.plain_loss, backend=options.backend)

    def plain_loss(self, latents, times, noise):
        signal, level = (table[times].view(-1, 1, 1, 1) for table in (self.signal, self.noise))
        noisy = (signal * latents.float() + level * noise).contiguous(memory_format=torch.channels_last)
        with casting(self.options):
            found = self.model(noisy, times)
        return (found.float() - noise).square().mean()

    def __call__(self):
        times = torch.randint(1000, (self.options.batch,), device=self.latents.device)
        noise = torch.randn(self.latents.shape, device=self.latents.device)
        loss = self.loss(self.latents, times, noise)
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        self.count += 1
        decay = min(0.9999, (1 + self.count) / (10 + self.count))  # a graph keeps one; the time is the same
        torch._foreach_lerp_(self.average, self.weights, 1 - decay)


class Sampling:
    def __init__(self, options, mode):
        self.options = options
        self.model = make_unet(options).eval().requires_grad_(False)
        for module in self.model.modules():  # cast once; norms keep fp32, as autocast has them
            if isinstance(module, (torch.nn.Conv2d, torch.nn.Conv1d, torch.nn.Linear)):
                module.to(torch.bfloat16)
        abar = torch.cat([abar_of(options), torch.ones(1, dtype=torch.float64, device=options.device)])
        visited = [(i + 1) * 1000 // options.steps - 1 for i in range(options.steps)][::-1]
        self.path = [(t, abar[t], abar[after]) for t, after in zip(visited, visited[1:] + [1000])]
        kinds = {"backend": options.backend} if options.backend != "inductor" else {"mode": mode}
        self.network = torch.compile(self.plain_network, **kinds)
        shape = (options.samples, options.channels, options.side, options.side)
        self.x = torch.randn(shape, device=options.device).contiguous(memory_format=torch.channels_last)
        self.times = torch.zeros(options.samples, dtype=torch.long, device=options.device)
        self.now, self.next = (torch.zeros((), device=options.device) for _ in range(2))

    def plain_network(self, x, times, now, after):
        with casting(self.options):
            eps = self.model(x, times).float()
        data = (x - (1 - now).sqrt() * eps) / now.sqrt()
        return after.sqrt() * data + (1 - after).sqrt() * eps

    def step(self):
        self.x.copy_(self.network(self.x, self.times, self.now, self.next))

    def __call__(self, step=None):
        with torch.no_grad():
            self.x.normal_()
            for time_, now, after in self.path:
                self.times.fill_(time_)
                self.now.copy_(now)
                self.next.copy_(after)
                (step or self.step)()


def captured(work, inference=False):
    """`work` as a CUDA graph, captured on the stream that it ran on before: nodes that accumulate gradients keep theirs."""
    graph = torch.cuda.CUDAGraph()
    with torch.set_grad_enabled(not inference):
        for _ in range(3):
            work()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            work()
    return graph.replay


def measure(work, options, rounds):
    """Milliseconds (a median), and GiB at most: allocated and reserved."""
    on_gpu = options.device == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    for _ in range(2):
        work()
    wait()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        wait()
        times.append(1e3 * (time.perf_counter() - start))
    gib = [f() / 2**30 for f in (torch.cuda.max_memory_allocated, torch.cuda.max_memory_reserved)] if on_gpu else [0, 0]
    return statistics.median(times), *gib


def show(name, count, figures):
    milliseconds, allocated, reserved = figures
    print(f"| {name} | {milliseconds:.2f} | {1e3 * count / milliseconds:.1f} | {allocated:.2f} | {reserved:.2f} | "
          f"{time.perf_counter() - START:.0f} |", flush=True)
    return {"images_per_second": 1e3 * count / milliseconds, "milliseconds": milliseconds, "peak_gib": allocated,
            "peak_reserved_gib": reserved}


def room(options, name):
    if time.perf_counter() - START < options.seconds:
        return True
    print(f"| {name} | left out: {options.seconds:.0f} s are over (--seconds) | | | | |", flush=True)
    return False


def forget(options):
    torch._dynamo.reset()
    if options.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def bench_training(options):
    step = Training(options)
    found = [show("training", options.batch, measure(step, options, options.rounds))]
    if options.device == "cuda" and room(options, "training, CUDA graph"):
        try:
            found.append(show("training, CUDA graph", options.batch, measure(captured(step), options, options.rounds)))
        except RuntimeError as error:
            print(f"| training, CUDA graph | {str(error).splitlines()[0]} | | | | |")
    return found


def bench_sampling(options):
    found = []
    print("| PyTorch, torch.compile | ms | images/s | peak GiB | reserved | s since start |\n|---|---|---|---|---|---|")
    name = f"sampling {options.samples} by {options.steps} steps"
    work = Sampling(options, "max-autotune-no-cudagraphs" if options.autotune else "default")
    found.append(show(name, options.samples, measure(work, options, 2)))
    if options.device == "cuda" and room(options, name + ", a CUDA graph each"):
        replay = captured(work.step, inference=True)
        found.append(show(name + ", a CUDA graph each", options.samples, measure(lambda: work(replay), options, 2)))
    return found


def compare(options, best):
    ours = json.loads(pathlib.Path(options.nsvq).read_text())
    print(f"\nnsvq ({ours['device']}, {ours['precision']}) against the fastest of PyTorch:")
    for name in ("training", "sampling"):
        ratio = ours[name]["images_per_second"] / best[name]["images_per_second"]
        print(f"{name}: {ours[name]['images_per_second']:.1f} / {best[name]['images_per_second']:.1f} images/s "
              f"= {ratio:.2f}x")
    for key in ("peak_gib", "peak_reserved_gib"):
        print(f"{key} of training: {ours['training'].get(key, 0):.2f} / {best['training'][key]:.2f}")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("device", "cuda"), ("batch", 128), ("samples", 256), ("steps", 50), ("width", 256),
                          ("channels", 128), ("side", 16), ("rounds", 20), ("backend", "inductor"), ("seconds", 200.0),
                          ("nsvq", "")):
        parser.add_argument(f"--{name}", default=default, type=type(default))
    parser.add_argument("--autotune", action="store_true", help="max-autotune for sampling; takes minutes more")
    return parser.parse_args()


def main():
    options = parse_options()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    check_attention()
    best = {}
    # The default stream cannot be captured.
    with torch.cuda.stream(torch.cuda.Stream()) if options.device == "cuda" else contextlib.nullcontext():
        # Training last: a capture that fails leaves the random generator unusable.
        for name, bench in (("sampling", bench_sampling), ("training", bench_training)):
            forget(options)
            found = bench(options)
            best[name] = max(found, key=lambda one: one["images_per_second"])
    if options.nsvq:
        compare(options, best)


if __name__ == "__main__":
    main()
