"""Public generators of tokens at small width with random weights, saved as their programs save them: what
`nsvq generate import` makes of each draws the likeliest tokens that PyTorch finds by plain modules with the program's names,
and `nsvq generate export --as` writes the same tensors again.

Run by ctest: run.sh generator_layouts.py NSVQ, the program.
"""

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
from collections import OrderedDict

import numpy as np
from safetensors.numpy import load_file, save_file

try:
    import torch
except ImportError:
    print("skipped: built with a torch of another Python version")
    sys.exit(77)

from torch import nn
from torch.nn import functional as F

import layouts

CODES, CLASSES, SIDE, COUNT = 64, 5, 4, 6  # SIDE: tokens of a grid's side
POSITIONS = SIDE * SIDE


def attend(q, k, v, heads, mask=None):
    q, k, v = (y.unflatten(-1, (heads, -1)).transpose(1, 2) for y in (q, k, v))
    scores = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask, -math.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def later(length):
    return torch.ones(length, length, dtype=torch.bool).triu(1)


class Rms(nn.Module):
    def __init__(self, width, bias=False):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        if bias:
            self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        y = rms(x) * self.weight
        return y + self.bias if hasattr(self, "bias") else y


def rms(x):
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()


class Swiglu(nn.Module):
    def __init__(self, width):
        super().__init__()
        hidden = -(-int(8 * width / 3) // 256) * 256
        self.w1, self.w3 = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


# LlamaGen: row, then column turn neighbouring channels of queries and keys; those of the class are zero.

class LlamagenAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.wqkv, self.wo = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

    def turn(self, x):
        each = x.shape[-1] // self.heads
        steps = [10000 ** (-i / (each // 2)) for i in range(0, each // 2, 2)]
        places = [(place // SIDE, place % SIDE) for place in range(x.shape[1] - 1)]
        angles = torch.tensor([[row * s for s in steps] + [column * s for s in steps] for row, column in places]).view(len(places), each // 2)
        turns = torch.cat([torch.zeros(1, each // 2), torch.polar(torch.ones_like(angles), angles)])
        pairs = torch.view_as_complex(x.unflatten(-1, (self.heads, -1, 2)).contiguous())
        return torch.view_as_real(pairs * turns[:, None]).flatten(2)

    def forward(self, x):
        q, k, v = self.wqkv(x).chunk(3, -1)
        return self.wo(attend(self.turn(q), self.turn(k), v, self.heads, later(x.shape[1])))


class LlamagenBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention, self.feed_forward = LlamagenAttention(width, heads), Swiglu(width)
        self.attention_norm, self.ffn_norm = Rms(width), Rms(width)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class Llamagen(nn.Module):
    def __init__(self, width=128, heads=2, depth=2):
        super().__init__()
        self.tok_embeddings, self.cls_embedding = nn.Embedding(CODES, width), nn.Module()
        self.cls_embedding.embedding_table = nn.Embedding(CLASSES + 1, width)
        self.layers = nn.ModuleList(LlamagenBlock(width, heads) for _ in range(depth))
        self.norm, self.output = Rms(width), nn.Linear(width, CODES, bias=False)

    def forward(self, tokens, labels):
        """Tokens [B, n] found so far: logits [B, K] of the next."""
        x = torch.cat([self.cls_embedding.embedding_table(labels)[:, None], self.tok_embeddings(tokens)], 1)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x[:, -1]))


# RAR: layer norms told by class and step, positions of the token and of the one to be found.

class RarAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, norm = heads, lambda: nn.LayerNorm(width // heads, eps=1e-6)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.q_norm, self.k_norm = norm(), norm()

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        each = lambda y, norm: norm(y.unflatten(-1, (self.heads, -1))).flatten(2)
        return self.proj(attend(each(q, self.q_norm), each(k, self.k_norm), v, self.heads, later(x.shape[1])))


def told(width, parts):
    return nn.Sequential(nn.SiLU(), nn.Linear(width, parts * width))


class RarBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attn, self.mlp = RarAttention(width, heads), nn.Module()
        self.mlp.fc1, self.mlp.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.adaLN_modulation = told(width, 6)

    def forward(self, x, c):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.adaLN_modulation(c).chunk(6, -1)
        x = x + gate1 * self.attn(self.norm1(x) * (1 + scale1) + shift1)
        return x + gate2 * self.mlp.fc2(F.gelu(self.mlp.fc1(self.norm2(x) * (1 + scale2) + shift2)))


class Rar(nn.Module):
    def __init__(self, width=64, heads=16, depth=2):
        super().__init__()
        table = lambda rows: nn.Parameter(torch.zeros(1, rows, width))
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.blocks = nn.ModuleList(RarBlock(width, heads) for _ in range(depth))
        self.embeddings = nn.Embedding(CODES + 1 + CLASSES + 1, width)
        self.pos_embed, self.target_aware_pos_embed = table(POSITIONS + 1024), table(POSITIONS + 1024)
        self.timesteps_embeddings = table(POSITIONS + 100)
        self.adaln_before_head, self.lm_head = nn.Module(), nn.Linear(width, CODES)
        self.adaln_before_head.adaLN_modulation = told(width, 2)

    def forward(self, tokens, labels):
        count, n = tokens.shape
        label = self.embeddings(labels + CODES + 1)[:, None]
        x = torch.cat([self.cls_token.expand(count, -1, -1), label, self.embeddings(tokens)], 1) + self.pos_embed[:, : n + 2]
        x = x + torch.cat([torch.zeros_like(self.cls_token), self.target_aware_pos_embed[:, 2 : n + 3]], 1)
        c = label + self.timesteps_embeddings[:, : n + 2]
        for block in self.blocks:
            x = block(x, c)
        scale, shift = self.adaln_before_head.adaLN_modulation(c[:, -1]).chunk(2, -1)
        return self.lm_head(F.layer_norm(x[:, -1], x.shape[-1:], eps=1e-6) * (1 + scale) + shift)


# Halton-MaskGIT: all positions and a register at once.

class HaltonAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        inner = width // heads * heads
        self.heads, self.wo = heads, nn.Linear(inner, width, bias=False)
        self.wq, self.wk, self.wv = (nn.Linear(width, inner, bias=False) for _ in range(3))

    def forward(self, x):
        return self.wo(attend(rms(self.wq(x)), rms(self.wk(x)), self.wv(x), self.heads))


class HaltonBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.mlp, self.ln1, self.ln2 = told(width, 6), Rms(width), Rms(width)
        self.attn, self.ff = HaltonAttention(width, heads), Swiglu(width)

    def forward(self, x, c):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.mlp(c).chunk(6, -1)
        x = x + gate1 * self.attn(self.ln1(x) * (1 + scale1) + shift1)
        return x + gate2 * self.ff(self.ln2(x) * (1 + scale2) + shift2)


class Halton(nn.Module):
    def __init__(self, width=128, heads=2, depth=2):
        super().__init__()
        self.cls_emb, self.tok_emb = nn.Embedding(CLASSES + 1, width), nn.Embedding(CODES + 1, width)
        self.pos_emb, self.reg_tokens = nn.Embedding(POSITIONS, width), nn.Embedding(1, width)
        self.transformer, self.last_norm = nn.Module(), nn.Module()
        self.transformer.layers = nn.ModuleList(HaltonBlock(width, heads) for _ in range(depth))
        self.last_norm.norm_final, self.last_norm.mlp = Rms(width, bias=True), told(width, 2)
        self.head = nn.Linear(width, CODES + 1)
        self.head.weight = self.tok_emb.weight

    def forward(self, tokens, labels):
        """Tokens [B, n], of which CODES are masked ones: logits [B, n, K]."""
        c = self.cls_emb(labels)[:, None]
        x = self.tok_emb(tokens) + self.pos_emb.weight
        x = torch.cat([x, self.reg_tokens.weight.expand(len(x), 1, -1)], 1)
        for layer in self.transformer.layers:
            x = layer(x, c)
        shift, scale = self.last_norm.mlp(c).chunk(2, -1)
        return self.head(self.last_norm.norm_final(x[:, :POSITIONS]) * (1 + scale) + shift)[..., :CODES]


# How each samples, with the likeliest code in place of a drawn one.

def guided(model, tokens, labels, weight):
    c, u = model(tokens, labels), model(tokens, torch.full_like(labels, CLASSES))
    return u + weight * (c - u)


def row_by_row(model, labels, weights):
    tokens = torch.zeros(len(labels), 0, dtype=torch.long)
    for i in range(POSITIONS):
        tokens = torch.cat([tokens, guided(model, tokens, labels, weights[i]).argmax(-1, keepdim=True)], 1)
    return tokens


def by_confidence(model, labels, weight, steps):
    tokens = torch.full((len(labels), POSITIONS), CODES)
    for step in range(steps):
        logits, masked = guided(model, tokens, labels, weight), tokens == CODES
        chances, found = logits.log_softmax(-1).max(-1)
        left = max(1, int(POSITIONS * math.cos(math.pi / 2 * (step + 1) / steps))) if step + 1 < steps else 0
        left = min(left, int(masked[0].sum()) - 1)
        again = chances.masked_fill(~masked, math.inf).argsort(1)[:, :left]
        tokens = torch.where(masked, found, tokens).scatter(1, again, CODES)
    return tokens


def halton_order():
    digits = lambda i, base: i % base / base + digits(i // base, base) / base if i else 0.0
    cells = [(int(digits(i, 2) * SIDE + 1e-9), int(digits(i, 3) * SIDE + 1e-9)) for i in range(1, 1000)]
    return [row * SIDE + column for row, column in dict.fromkeys(cells)]


def by_halton(model, labels, weight, steps, start):
    """As Halton-MaskGIT's program: each step draws all positions so far anew. `start`: where the order begins."""
    order = np.roll(halton_order(), -start)
    tokens = torch.full((len(labels), POSITIONS), CODES)
    for step in range(steps):
        count = max(step + 1, int((1 - math.acos((step + 1) / steps) / (math.pi / 2)) * POSITIONS + 1e-9))
        places = torch.from_numpy(order[:count].copy())
        tokens[:, places] = guided(model, tokens, labels, weight)[:, places].argmax(-1)
    return tokens


# Files as the programs write them.

def with_optimizer(part):
    def save(model, file):
        torch.save({part: OrderedDict(model.state_dict()), "optimizer": {"state": {0: {"exp_avg": torch.zeros(3)}}}, "steps": 7}, file)
    return save


def compiled(model, file):
    state = OrderedDict(("module._orig_mod." + name, tensor) for name, tensor in model.state_dict().items())
    torch.save({"iter": 7, "global_epoch": 1, "model_state_dict": state, "optimizer_state_dict": {"state": {}}}, file)


def plain(model, file):
    torch.save(OrderedDict(model.state_dict()), file)


FILES = {"c2i_B_256.pt": (Llamagen, with_optimizer("model"), "llamagen"),
         "ImageNet_256_base.pth": (Halton, compiled, "halton"),
         "rar_b.bin": (Rar, plain, "rar")}


def original(make):
    torch.manual_seed(7)
    model = make().eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        is_table = parameter.dim() > 1 and ("emb" in name or name == "cls_token")
        parameter.copy_(torch.randn(parameter.shape) * (0.7 if is_table else 0.15))
        if name.endswith("weight") and parameter.dim() == 1:  # of a norm
            parameter += 1
    return model


class Test:
    def __init__(self, nsvq, folder):
        self.nsvq, self.folder = nsvq, folder
        tokenizer = layouts.CASES["maskgit.bin"]
        tokenizer[1](tokenizer[0](), folder / "maskgit.bin")
        self.run("import", folder / "maskgit.bin", "--size", 16, "--out", folder / "tokenizer.safetensors")

    def run(self, *words, code=0):
        done = subprocess.run([self.nsvq, *map(str, words)], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def refused(self, *words):
        message = self.run(*words, code=2)
        assert message.count("\n") == 1, message
        return message

    def imported(self, name, out, *more):
        size = ("--size", 16 * SIDE) if name.startswith("c2i") and "--tokenizer" not in more else ()
        return self.run("generate", "import", self.folder / name, *size, *more, "--out", self.folder / out)

    def sampled(self, model, *words):
        file = self.folder / "tokens.npy"
        self.run("generate", "sample", self.folder / model, "--count", COUNT, "--top-k", 1, *words, "--out", file, "--force", "--device", "cpu")
        return torch.from_numpy(np.load(file).astype(np.int64)).flatten(1)

    def compare(self, name, found, expected):
        print(f"{name}: {expected.unique().numel()} codes, {(found == expected).double().mean():.1%} equal")
        assert expected.unique().numel() > 5, expected
        assert (found == expected).all(), (name, found, expected)

    def check(self, name):
        make, save, program = FILES[name]
        model, labels = original(make), torch.arange(COUNT) % CLASSES
        save(model, self.folder / name)
        notes = self.imported(name, program)
        assert f"{sum(p.numel() for p in model.parameters())} parameters; {SIDE}x{SIDE} tokens of {CODES} codes, {CLASSES} classes" in notes, notes
        if program == "halton":
            self.check_masked(name, model, labels)
        else:
            weights = [2.0] * POSITIONS
            if program == "rar":
                weights = [1 + 15 * (1 - math.cos(math.pi * (i / POSITIONS) ** 2.75)) / 2 for i in range(POSITIONS)]
            self.compare(name, self.sampled(program), row_by_row(model, labels, weights))
            self.compare(name, self.sampled(program, "--guidance", 1), row_by_row(model, labels, [1.0] * POSITIONS))
        out = self.folder / f"{program}.safetensors"
        self.run("generate", "export", self.folder / program, "--as", program, "--out", out)
        written, tensors = load_file(out), model.state_dict()
        assert written.keys() == tensors.keys(), written.keys() ^ tensors.keys()
        for key, tensor in tensors.items():
            assert written[key].dtype == np.float32 and written[key].shape == tuple(tensor.shape), key
            assert (written[key] == tensor.numpy()).all(), key
        again = self.folder / f"{program}-again.safetensors"
        self.imported(out.name, f"{program}-again", "--size", 16 * SIDE)
        self.run("generate", "export", self.folder / f"{program}-again", "--as", program, "--out", again)
        assert again.read_bytes() == out.read_bytes()

    def check_masked(self, name, model, labels):
        self.imported(name, "confident", "sampling.order=confidence", "sampling.choice_temperature=0", "sampling.redraw=false")
        self.compare(name, self.sampled("confident", "--steps", 5), by_confidence(model, labels, 2.5, 5))
        for steps in 3, POSITIONS:
            found = self.sampled("halton", "--steps", steps)
            starts = [by_halton(model, labels, 2.5, steps, start) for start in range(POSITIONS)]
            expected = [next((some[i] for some in starts if (some[i] == found[i]).all()), starts[0][i]) for i in range(COUNT)]
            self.compare(f"{name}, {steps} steps", found, torch.stack(expected))

    def check_tokenizer(self):
        tokenizer = self.folder / "tokenizer.safetensors"
        self.imported("rar_b.bin", "whole", "--tokenizer", tokenizer)
        self.run("generate", "sample", self.folder / "whole", "--count", 2, "--out", self.folder / "grid.png", "--device", "cpu")
        assert (self.folder / "whole" / "tokenizer" / "model.safetensors").is_file()
        config = json.loads((self.folder / "whole" / "config.json").read_text())
        assert config["sampling"]["guidance"] == 16 and config["data"]["size"] == 16, config

    def check_refused(self):
        file, out = self.folder / "rar_b.bin", self.folder / "none"
        refuse = lambda *words: self.refused("generate", "import", *words, "--out", out)
        assert "4x4" in refuse(file, "--size", 256) and not out.exists()
        assert "its layout is none of llamagen's, halton's, rar's" in refuse(self.folder / "maskgit.bin")
        assert "`nsvq generate import FILE`" in self.refused("import", file, "--out", self.folder / "y.safetensors")
        assert "RAR's generator is recognised" in self.run("info", file)
        tensors = {name: tensor.numpy() for name, tensor in original(Rar).state_dict().items()}
        short = {name: tensor for name, tensor in tensors.items() if name != "blocks.1.mlp.fc2.bias"}
        save_file(short, self.folder / "short.safetensors")
        message = refuse(self.folder / "short.safetensors")
        assert "short.safetensors: the tensor 'blocks.1.mlp.fc2.bias'" in message and "missing" in message, message
        save_file(tensors | {"blocks.1.extra.bias": np.zeros(3, np.float32)}, self.folder / "more.safetensors")
        assert "'blocks.1.extra.bias'" in refuse(self.folder / "more.safetensors")
        save_file(tensors | {"lm_head.bias": np.full(CODES, np.nan, np.float32)}, self.folder / "nan.safetensors")
        assert "lm_head.bias" in refuse(self.folder / "nan.safetensors")
        (self.folder / "cut.bin").write_bytes(file.read_bytes()[:-100])
        assert "cut.bin" in refuse(self.folder / "cut.bin")
        texts = {"tok_embeddings.weight": np.zeros((2, 4), np.float32), "layers.0.attention.wqkv.weight": np.zeros((12, 4), np.float32),
                 "cls_embedding.cap_proj.fc1.weight": np.zeros((4, 4), np.float32)}
        save_file(texts, self.folder / "t2i.safetensors")
        assert "it is told texts" in refuse(self.folder / "t2i.safetensors")
        other = {**tensors, "lm_head.weight": tensors["lm_head.weight"][:60], "lm_head.bias": tensors["lm_head.bias"][:60],
                 "embeddings.weight": tensors["embeddings.weight"][:60 + CLASSES + 2]}
        save_file(other, self.folder / "other.safetensors")
        assert "a generator of 60 codes" in refuse(self.folder / "other.safetensors", "--tokenizer", self.folder / "tokenizer.safetensors")
        message = self.refused("generate", "export", self.folder / "rar", "--as", "llamagen", "--out", self.folder / "z.safetensors")
        assert "of family rar, but llamagen has family ar" in message, message
        message = self.refused("generate", "sample", self.folder / "rar", "--out", self.folder / "grid2.png")
        assert "--out FILE.npy" in message, message


@torch.no_grad()
def main(nsvq):
    with tempfile.TemporaryDirectory() as folder:
        test = Test(nsvq, pathlib.Path(folder))
        for name in FILES:
            test.check(name)
        test.check_tokenizer()
        test.check_refused()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
