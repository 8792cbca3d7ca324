"""Tokenising and decoding with public layouts, `nsvq bench tokenize` beside PyTorch, eager and by torch.compile:

layouts_torch.py NSVQ [--device cuda|cpu] [--batch 64] [--size 256] [--rounds 20] [--layouts taming-f16,llamagen-vq16]
                 [--backend inductor] [--autotune] [--json FILE] [--width 128] [--codes 16384]

NSVQ is the program. Both sides have the networks of configs/taming-f16.yaml and configs/llamagen-vq16.yaml with random
weights, which do not change the time; images and tokens are on the device. PyTorch's are those of
nsvq/tokenizer/pytorch_model.py, channels-last, attention by scaled_dot_product_attention, the search by a product with all
codes in fp32; once under autocast to bf16 with the weights of convolutions cast beforehand, once in bf16 throughout. The
last lines compare nsvq with the fastest of torch.compile. --width, --size and --codes make it small enough for a CPU.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "nsvq" / "tokenizer"))
import pytorch_model

NETWORKS = {"family": "taming", "multipliers": [1, 1, 2, 2, 4], "blocks": 2, "z_channels": 256, "attention": [4],
            "mid_attention": True}
LAYOUTS = {
    "taming-f16": {"latent_dim": 256, "normalise": False},
    "llamagen-vq16": {"latent_dim": 8, "normalise": True},
}
WORK = ("tokenise", "decode")
KEYS = ("milliseconds", "images_per_second", "peak_gib", "peak_reserved_gib")


def with_fused_attention(network):
    for module in network.modules():
        if isinstance(module, pytorch_model.Attention):
            module.attend = F.scaled_dot_product_attention
    return network


class Tokenizer(nn.Module):
    """A layout's encoder, codes and decoder."""

    def __init__(self, layout, options):
        super().__init__()
        config = {**NETWORKS, "width": options.width, "latent_dim": layout["latent_dim"]}
        self.encoder = with_fused_attention(pytorch_model.Encoder(config))
        self.decoder = with_fused_attention(pytorch_model.Decoder(config))
        self.normalise = layout["normalise"]
        self.codebook = nn.Parameter(torch.randn(options.codes, layout["latent_dim"]))

    def codes(self):
        codes = self.codebook.float()
        return F.normalize(codes) if self.normalise else codes

    def tokenise(self, images):
        latents = self.encoder(images).permute(0, 2, 3, 1).float()
        with torch.autocast(images.device.type, enabled=False):
            latents = F.normalize(latents, dim=-1) if self.normalise else latents
            codes = self.codes()
            distances = torch.addmm(codes.square().sum(1), latents.flatten(0, 2), codes.T, alpha=-2)
        return distances.argmin(1).view(latents.shape[:3])

    def decode(self, tokens):
        codes = F.embedding(tokens, self.codes()).permute(0, 3, 1, 2)
        return self.decoder(codes.to(self.decoder.conv_in.weight.dtype)).float()


def check_attention():
    """Attention by scaled_dot_product_attention is the one written out."""
    torch.manual_seed(0)
    plain, x = pytorch_model.Attention(32), torch.randn(2, 32, 4, 6)
    expected = plain(x)
    torch.testing.assert_close(with_fused_attention(plain)(x), expected, rtol=1e-4, atol=1e-5)


class Torch:
    """A tokenizer in PyTorch with images and tokens to work on."""

    def __init__(self, layout, precision, compiled, options):
        torch.manual_seed(0)
        device = options.device
        model = Tokenizer(layout, options).to(device, memory_format=torch.channels_last).eval().requires_grad_(False)
        self.autocast = precision == "autocast"
        for module in model.modules():  # norms keep fp32 under autocast
            if isinstance(module, nn.Conv2d) or not self.autocast and isinstance(module, nn.GroupNorm):
                module.to(torch.bfloat16)
        images = torch.rand(options.batch, 3, options.size, options.size, device=device) * 2 - 1
        images = images.contiguous(memory_format=torch.channels_last)
        side = options.size // 16
        tokens = torch.randint(options.codes, (options.batch, side, side), device=device)
        self.inputs = {"tokenise": images if self.autocast else images.to(torch.bfloat16), "decode": tokens}
        how = {"backend": options.backend}
        if options.autotune and options.backend == "inductor":
            how["mode"] = "max-autotune-no-cudagraphs"
        methods = {name: getattr(model, name) for name in WORK}
        self.methods = {name: torch.compile(work, **how) if compiled else work for name, work in methods.items()}
        self.device = device

    def run(self, name):
        with torch.no_grad(), torch.autocast(self.device, torch.bfloat16, enabled=self.autocast):
            return self.methods[name](self.inputs[name])


def measure(work, options):
    """Milliseconds (a median), and GiB at most: allocated and reserved."""
    on_gpu = options.device == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    for _ in range(3):
        work()
    wait()
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(options.rounds):
        start = time.perf_counter()
        work()
        wait()
        times.append(1e3 * (time.perf_counter() - start))
    peaks = (torch.cuda.max_memory_allocated, torch.cuda.max_memory_reserved) if on_gpu else ()
    milliseconds = statistics.median(times)
    return {"milliseconds": milliseconds, "images_per_second": 1e3 * options.batch / milliseconds,
            **{key: peak() / 2**30 for key, peak in zip(KEYS[2:], peaks)}}


def by_nsvq(layout, options):
    """What `nsvq bench tokenize` says of both kinds of work."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "figures.json"
        settings = [f"data.size={options.size}", f"model.width={options.width}", f"quantizer.codes={options.codes}"]
        subprocess.run([options.nsvq, "bench", "tokenize", ROOT / "configs" / f"{layout}.yaml", *settings, "--device",
                        options.device, "--batch-size", str(options.batch), "--rounds", str(options.rounds), "--json", file],
                       check=True, stdout=subprocess.DEVNULL)
        figures = json.loads(file.read_text())
    return {"tokenise": figures, "decode": figures["decode"]}


def show(layout, how, name, figures):
    memory = [f"{figures[key]:.2f}" if key in figures else "" for key in ("peak_gib", "peak_reserved_gib")]
    print(f"| {layout} | {name} | {how} | {figures['milliseconds']:.2f} | {figures['images_per_second']:.1f} | "
          f"{' | '.join(memory)} |", flush=True)
    return {"layout": layout, "work": name, "how": how,
            **{key: value for key, value in figures.items() if key in KEYS}}


def bench(layout, options):
    rows = [show(layout, "nsvq", name, figures) for name, figures in by_nsvq(layout, options).items()]
    for compiled in (False, True):
        for precision in ("autocast", "bf16"):
            model = Torch(LAYOUTS[layout], precision, compiled, options)
            how = f"PyTorch, {'compile' if compiled else 'eager'}, {precision}"
            rows += [show(layout, how, name, measure(lambda: model.run(name), options)) for name in WORK]
            del model
            torch._dynamo.reset()
            if options.device == "cuda":
                torch.cuda.empty_cache()
    return rows


def compare(rows):
    print()
    for layout in dict.fromkeys(row["layout"] for row in rows):
        for name in WORK:
            own = [row for row in rows if (row["layout"], row["work"]) == (layout, name)]
            ours = next(row for row in own if row["how"] == "nsvq")
            compiled = [row for row in own if "compile" in row["how"]]
            best = max(compiled, key=lambda row: row["images_per_second"])
            line = f"{layout}, {name}: {ours['images_per_second'] / best['images_per_second']:.2f}x {best['how']}"
            if "peak_gib" in best:
                least = min(row["peak_gib"] for row in compiled)
                line += f"; {ours['peak_gib'] / best['peak_gib']:.2f} of its memory"
                line += f", {ours['peak_gib'] / least:.2f} of the least"
            print(line)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nsvq")
    for name, default in (("device", "cuda"), ("batch", 64), ("size", 256), ("rounds", 20), ("layouts", ",".join(LAYOUTS)),
                          ("backend", "inductor"), ("json", ""), ("width", 128), ("codes", 16384)):
        parser.add_argument(f"--{name}", default=default, type=type(default))
    parser.add_argument("--autotune", action="store_true", help="compile with max-autotune, which takes minutes more")
    return parser.parse_args()


def main():
    options = parse_options()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    check_attention()
    device = torch.cuda.get_device_name() if options.device == "cuda" else f"cpu, {torch.get_num_threads()} threads"
    print(f"{device}, torch {torch.__version__}, batch {options.batch}, {options.size}x{options.size}\n")
    print("| layout | work | by | ms | images/s | peak GiB | reserved |\n|---|---|---|---|---|---|---|")
    rows = [row for layout in options.layouts.split(",") for row in bench(layout, options)]
    compare(rows)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
