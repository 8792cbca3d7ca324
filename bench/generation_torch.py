"""Generators of tokens in PyTorch: what `nsvq_bench generation` stands beside.

generation_torch.py [--only training,sampling,masked] [--device cuda|cpu] [--width 768] [--depth 12] [--heads 12]
                    [--codes 16384] [--side 16] [--batch 256] [--samples 64] [--steps 32] [--classes 1000] [--guidance 2]
                    [--rounds 20] [--backend inductor] [--seconds 500] [--peak 989] [--decode] [--nsvq FILE.json]

training: a step of LlamaGen's network in bf16 autocast, attention by scaled_dot_product_attention, dropout 0.1, gradients
clipped to norm 1, fused AdamW; forward, loss and backward compiled; timed as PyTorch launches it and as one CUDA graph.
sampling: all tokens of --samples images in bf16 with a static cache of keys and values and guidance, a step as PyTorch
launches it (with `multinomial`), and compiled as gpt-fast has it ("reduce-overhead", no wait for the host).
masked: Halton-MaskGIT's network in --steps steps, all positions told in each; a step as PyTorch launches it, and compiled.
--decode adds a decoder of the sizes of LlamaGen's VQ-16. MFU is the FLOPs of the products of forward and backward pass,
a causal half of the attention included, by the time and --peak TFLOP/s. With --nsvq the figures of
`nsvq_bench generation --json FILE.json` stand beside these: those of llamagen-b.yaml beside training and sampling, those of
halton-b.yaml beside masked. What does not fit into --seconds is left out.
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
from torch import nn
from torch.nn import functional as F

TESTS = pathlib.Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS / "nn" / "golden"), str(TESTS / "generation" / "golden")]
import families
import generators

START = time.perf_counter()


class Norm(nn.Module):
    def __init__(self, width, bias=False):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        y = rms(x) * self.weight
        return y if self.bias is None else y + self.bias


def rms(x):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def linear(inputs, outputs, bias=False):
    return nn.Linear(inputs, outputs, bias=bias)


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        hidden = generators.swiglu_hidden(width)
        self.w1, self.w2, self.w3 = linear(width, hidden), linear(hidden, width), linear(width, hidden)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


def turned(x, turns):
    """Neighbouring channels of x [B, T, heads, channels] as pairs, by turns [T, channels / 2, 2]."""
    pairs, (cos, sin) = x.float().unflatten(-1, (-1, 2)), turns[:, None].unbind(-1)
    even, odd = pairs.unbind(-1)
    return torch.stack([even * cos - odd * sin, odd * cos + even * sin], -1).flatten(3).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.keys, self.values = heads, None, None
        self.wqkv, self.wo = linear(width, 3 * width), linear(width, width)

    def forward(self, x, turns, place=None, mask=None):
        q, k, v = self.wqkv(x).unflatten(2, (3, self.heads, -1)).unbind(2)
        q, k, v = (y.transpose(1, 2) for y in (turned(q, turns), turned(k, turns), v))
        if place is not None:
            self.keys[:, :, place], self.values[:, :, place] = k, v
            k, v = self.keys, self.values
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return self.wo(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention, self.feed_forward = Attention(width, heads), FeedForward(width)
        self.attention_norm, self.ffn_norm = Norm(width), Norm(width)

    def forward(self, x, turns, drop, **cached):
        x = x + drop(self.attention(self.attention_norm(x), turns, **cached))
        return x + drop(self.feed_forward(self.ffn_norm(x)))


class RowByRow(nn.Module):
    """LlamaGen, with the names of tests/generation/golden/generators.py."""

    def __init__(self, o):
        super().__init__()
        self.positions = o.side**2
        self.tok_embeddings, self.cls_embedding = nn.Embedding(o.codes, o.width), generators.Classes(o.classes, o.width)
        self.layers = nn.ModuleList(Block(o.width, o.heads) for _ in range(o.depth))
        self.norm, self.output = Norm(o.width), linear(o.width, o.codes)
        grid = {"height": o.side, "width": o.side}
        angles = generators.Ar.angles(argparse.Namespace(config=vars(o), grid=grid))
        turns = torch.nan_to_num(torch.stack([angles.cos(), angles.sin()], -1)).float()
        self.register_buffer("turns", turns, persistent=False)

    def forward(self, tokens, labels, dropout=0.0):
        drop = lambda x: F.dropout(x, dropout)
        x = torch.cat([self.cls_embedding.embedding_table(labels)[:, None], self.tok_embeddings(tokens[:, :-1])], 1)
        x = drop(x)
        for layer in self.layers:
            x = layer(x, self.turns[: x.shape[1]], drop)
        return self.output(self.norm(x))

    def with_cache(self, count):
        heads = self.layers[0].attention.heads
        each = self.norm.weight.numel() // heads
        shape = (count, heads, -(-self.positions // 8) * 8, each)
        for layer in self.layers:
            for name in ("keys", "values"):
                setattr(layer.attention, name, torch.zeros(shape, dtype=self.norm.weight.dtype, device=self.turns.device))
        later = torch.ones(shape[2], shape[2], dtype=torch.bool, device=self.turns.device).tril()
        self.register_buffer("seen", later, persistent=False)
        return self

    def step(self, x, place):
        """The vector x [B, 1, width] at place [1]: logits [B, K]."""
        for layer in self.layers:
            x = layer(x, self.turns[place], lambda y: y, place=place, mask=self.seen[None, None, place])
        return self.output(self.norm(x))[:, -1].float()


class MaskedAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, inner = heads, width // heads * heads
        self.wqkv, self.wo = linear(width, 3 * inner), linear(inner, width)

    def forward(self, x):
        q, k, v = self.wqkv(x).chunk(3, -1)
        q, k, v = (y.unflatten(2, (self.heads, -1)).transpose(1, 2) for y in (rms(q), rms(k), v))
        return self.wo(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class MaskedBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention, self.feed_forward = MaskedAttention(width, heads), FeedForward(width)
        self.attention_norm, self.ffn_norm = Norm(width), Norm(width)
        self.modulation = linear(width, 6 * width, bias=True)

    def forward(self, x, condition):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(condition).chunk(6, -1)
        x = x + gate1 * self.attention(self.attention_norm(x) * (1 + scale1) + shift1)
        return x + gate2 * self.feed_forward(self.ffn_norm(x) * (1 + scale2) + shift2)


class Masked(nn.Module):
    """Halton-MaskGIT, with the names of tests/generation/golden/generators.py."""

    def __init__(self, o):
        super().__init__()
        self.positions, self.codes = o.side**2, o.codes
        self.cls_emb, self.tok_emb = generators.Classes(o.classes, o.width), nn.Embedding(o.codes + 1, o.width)
        self.pos_emb, self.reg_tokens = nn.Embedding(self.positions, o.width), nn.Embedding(1, o.width)
        self.layers = nn.ModuleList(MaskedBlock(o.width, o.heads) for _ in range(o.depth))
        self.last_norm, self.output = generators.ModulatedNorm(o.width, Norm(o.width, bias=True)), nn.Module()
        self.output.bias = nn.Parameter(torch.zeros(o.codes + 1))

    def forward(self, tokens, labels):
        told = self.cls_emb.embedding_table(labels)[:, None]
        x = self.tok_emb(tokens) + self.pos_emb.weight
        x = torch.cat([x, self.reg_tokens.weight.expand(len(x), 1, -1)], 1)
        for layer in self.layers:
            x = layer(x, F.silu(told))
        return F.linear(self.last_norm(x[:, : self.positions], told), self.tok_emb.weight, self.output.bias)


def check_networks():
    """Both are those that are written out."""
    o = argparse.Namespace(width=16, depth=2, heads=2, codes=11, side=3, classes=4)
    grid = {"height": 3, "width": 3, "codes": 11, "classes": 4}
    config = {**generators.DEFAULTS, "width": 16, "depth": 2, "heads": 2, "label_dropout": 0.0}
    tokens, labels = torch.randint(11, (3, 9)), torch.tensor([0, 2, 3])
    for ours, plain in ((RowByRow(o), generators.Ar(config, grid)), (Masked(o), generators.Masked(config, grid))):
        for parameter in ours.parameters():
            nn.init.normal_(parameter, std=0.3)
        plain.load_state_dict(ours.state_dict())
        plain.double()  # its angles and draws are
        if isinstance(ours, RowByRow):
            logits = ours(tokens, labels)
            ours.with_cache(3)
            given = torch.cat([ours.cls_embedding.embedding_table(labels)[:, None], ours.tok_embeddings(tokens)], 1)
            cached = torch.stack([ours.step(given[:, i : i + 1], torch.tensor([i])) for i in range(9)], 1)
            torch.testing.assert_close(cached, logits, rtol=1e-4, atol=1e-5)
            expected = plain(tokens, labels, [1, 2, 3], 0.0)
        else:
            masked = generators.uniform([1, 2, 3], generators.MASK, 9)
            share = torch.arccos(generators.uniform([1, 2, 3], generators.MASK_SHARE, 1)) / (math.pi / 2)
            logits = ours(torch.where(masked < share, 11, tokens), labels)
            expected = plain(tokens, labels, [1, 2, 3], 0.0)
        found = F.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="none").view(3, 9).mean(1)
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)


class Training:
    def __init__(self, o):
        self.o = o
        self.model = RowByRow(o).to(o.device)
        self.weights = list(self.model.parameters())
        self.adam = torch.optim.AdamW(self.weights, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.05, fused=True,
                                      capturable=o.device == "cuda")
        self.tokens = torch.randint(o.codes, (o.batch, o.side**2), device=o.device)
        self.labels = torch.randint(o.classes, (o.batch,), device=o.device)
        self.loss = torch.compile(self.plain_loss, backend=o.backend)

    def plain_loss(self, tokens, labels):
        labels = torch.where(torch.rand(labels.shape, device=labels.device) < 0.1, self.o.classes, labels)
        with torch.autocast(self.o.device, torch.bfloat16):
            logits = self.model(tokens, labels, 0.1)
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())

    def __call__(self):
        self.adam.zero_grad()
        self.loss(self.tokens, self.labels).backward()
        nn.utils.clip_grad_norm_(self.weights, 1.0, foreach=True)
        self.adam.step()


class Sampler:
    """What both kinds share: bf16 weights, labels with and without class, and how a step is compiled."""

    def __init__(self, o, model, compiled):
        self.o, self.compiled = o, compiled
        self.model = model.to(o.device, torch.bfloat16).eval().requires_grad_(False)
        told = torch.arange(o.samples, device=o.device) % o.classes
        self.labels = torch.cat([told, torch.full_like(told, o.classes)])
        kinds = {"backend": o.backend} if o.backend != "inductor" else {"mode": "reduce-overhead"}
        self.step = torch.compile(self.plain_step, fullgraph=True, **kinds) if compiled else self.plain_step
        self.decoder = decoder(o) if o.decode else None

    def draw(self, logits):
        c, u = logits.chunk(2)
        shares = (u + self.o.guidance * (c - u)).float().softmax(-1)
        if not self.compiled:
            return torch.multinomial(shares.flatten(0, -2), 1).view(shares.shape[:-1])
        return (shares / torch.empty_like(shares).exponential_(1)).argmax(-1)

    @torch.no_grad()
    def __call__(self):
        tokens = self.tokens()
        if self.decoder:
            self.decoder(tokens.view(-1, self.o.side, self.o.side))


class SequenceSampler(Sampler):
    def __init__(self, o, compiled):
        model = RowByRow(o)
        turns = model.turns.to(o.device)
        super().__init__(o, model, compiled)
        self.model.turns = turns  # in fp32
        self.model.with_cache(2 * o.samples)

    def plain_step(self, x, place):
        return self.draw(self.model.step(x, place))

    def tokens(self):
        place, found = torch.zeros(1, dtype=torch.long, device=self.o.device), []
        x = self.model.cls_embedding.embedding_table(self.labels)[:, None]
        for _ in range(self.o.side**2):
            found.append(self.step(x, place).clone())
            x = self.model.tok_embeddings(torch.cat([found[-1]] * 2))[:, None]
            place += 1
        return torch.stack(found, 1)


class MaskedSampler(Sampler):
    def __init__(self, o, compiled):
        super().__init__(o, Masked(o), compiled)
        self.order = torch.randperm(o.side**2, device=o.device)  # any order takes equal time

    def plain_step(self, tokens, found):
        drawn = self.draw(self.model(torch.cat([tokens, tokens]), self.labels)[..., : self.o.codes])
        return torch.where(found, drawn, tokens)

    def tokens(self):
        positions = self.o.side**2
        tokens = torch.full((self.o.samples, positions), self.o.codes, device=self.o.device)
        for step in range(self.o.steps):
            share = 1 - math.acos((step + 1) / self.o.steps) / (math.pi / 2)
            tokens = self.step(tokens, self.order < max(step + 1, int(share * positions))).clone()
        return tokens


def decoder(o):
    sizes = {**families.DEFAULTS, "width": o.decoder_width, "multipliers": [1, 1, 2, 2, 4], "blocks": 2, "attention": [4],
             "mid_attention": True, "z_channels": 2 * o.decoder_width, "latent_dim": 8, "latent_kernel": 1}
    network = families.TamingDecoder(sizes).to(o.device, torch.bfloat16, memory_format=torch.channels_last)
    network = torch.compile(network.eval().requires_grad_(False), backend=o.backend)
    table = torch.randn(o.codes, 8, device=o.device, dtype=torch.bfloat16)
    return lambda tokens: network(table[tokens].permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last))


def flops_of_training(o):
    """Of an image: products of weights, and half of the products of attention."""
    weights = o.depth * (4 * o.width**2 + 3 * o.width * generators.swiglu_hidden(o.width)) + o.width * o.codes
    tokens = o.side**2
    return 3 * (2 * weights * tokens + o.depth * 2 * tokens**2 * o.width)


def captured(work):
    graph = torch.cuda.CUDAGraph()
    for _ in range(3):
        work()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        work()
    return graph.replay


def measure(work, o, rounds):
    """Seconds (a median), and GiB at most."""
    on_gpu = o.device == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    for _ in range(3):
        work()
    wait()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        wait()
        times.append(time.perf_counter() - start)
    return statistics.median(times), torch.cuda.max_memory_allocated() / 2**30 if on_gpu else 0.0


def show(o, name, count, taken, mfu=False):
    seconds, gib = taken
    share = f"{flops_of_training(o) * count / seconds / o.peak / 1e12:.1%}" if mfu else ""
    print(f"| {name} | {1e3 * seconds:.2f} | {count / seconds:.1f} | {gib:.2f} | {share} | "
          f"{time.perf_counter() - START:.0f} |", flush=True)
    return {"images_per_second": count / seconds, "peak_gib": gib}


def forget(o):
    torch._dynamo.reset()
    if o.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def bench_training(o):
    step, name = Training(o), f"training, batch {o.batch}, {o.codes} codes, torch.compile"
    found = [show(o, name, o.batch, measure(step, o, o.rounds), mfu=True)]
    if o.device == "cuda":
        try:
            found.append(show(o, name + ", CUDA graph", o.batch, measure(captured(step), o, o.rounds), mfu=True))
        except RuntimeError as error:
            print(f"| {name}, CUDA graph | {str(error).splitlines()[0]} | | | | |")
    return found


def bench_sampling(o, kind, name):
    found = []
    for compiled in (False, True):
        forget(o)
        how = "compiled" if compiled else "eager"
        if time.perf_counter() - START > o.seconds:
            print(f"| {name}, {how} | left out: {o.seconds:.0f} s are over (--seconds) | | | | |")
            continue
        found.append(show(o, f"{name}, {how}", o.samples, measure(kind(o, compiled), o, 2)))
    return found


def compare(o, best):
    ours = json.loads(pathlib.Path(o.nsvq).read_text())
    print(f"\nnsvq ({ours['device']}, {ours['precision']}) beside PyTorch:")
    for part, rows in best.items():
        own = ours.get("training" if part == "training" else "sampling")
        if not own or not rows or ours["family"] != ("masked" if part == "masked" else "ar"):
            continue
        sizes = (ours["codes"], ours["tokens"], own.get("batch_size", own.get("images")))
        asked = (o.codes, o.side**2, o.batch if part == "training" else o.samples)
        if sizes != asked:
            print(f"{part}: codes, tokens and images are {sizes} in {o.nsvq}, {asked} here: not compared")
            continue
        rate = own["images_per_second"]
        ratios = ", ".join(f"{rate / row['images_per_second']:.2f}x of {row['images_per_second']:.1f}" for row in rows)
        print(f"{part}: {rate:.1f} images/s, {ratios}")
        if part == "training":
            fastest = max(rows, key=lambda row: row["images_per_second"])
            print(f"MFU {flops_of_training(o) * rate / o.peak / 1e12:.1%}, "
                  f"{own.get('peak_gib', 0):.2f} GiB at most, {fastest['peak_gib']:.2f} of PyTorch")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("only", "training,sampling,masked"), ("device", "cuda"), ("width", 768), ("depth", 12), ("heads", 12),
                          ("codes", 16384), ("side", 16), ("batch", 256), ("samples", 64), ("steps", 32), ("classes", 1000),
                          ("guidance", 2.0), ("rounds", 20), ("backend", "inductor"), ("seconds", 500.0), ("peak", 989.0),
                          ("decoder-width", 128), ("nsvq", "")):
        parser.add_argument(f"--{name}", default=default, type=type(default))
    parser.add_argument("--decode", action="store_true", help="decode samples")
    return parser.parse_args()


def main():
    o = parse_options()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    check_networks()
    print("| PyTorch | ms | images/s | peak GiB | MFU | s since start |\n|---|---|---|---|---|---|")
    tokens = f"{o.samples} images of {o.side**2} tokens" + (", decoded" if o.decode else "")
    parts = {"sampling": lambda: bench_sampling(o, SequenceSampler, f"sampling {tokens}"),
             "masked": lambda: bench_sampling(o, MaskedSampler, f"{o.steps} masked steps, {tokens}"),
             "training": lambda: bench_training(o)}
    best = {}
    # The default stream cannot be captured.
    with torch.cuda.stream(torch.cuda.Stream()) if o.device == "cuda" else contextlib.nullcontext():
        for part in (name for name in parts if name in o.only.split(",")):  # training last: its capture may fail
            forget(o)
            best[part] = parts[part]()
    if o.nsvq:
        compare(o, best)


if __name__ == "__main__":
    main()
