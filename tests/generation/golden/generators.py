"""The generators of nsvq/generation as plain PyTorch modules with the same parameter names, attention written out.

`Ar`, `Masked` and `Rar` take a dict of settings and a grid. Run as a script, it writes generators.json beside itself: losses
and gradients of small models whose parameters follow from their names (see `draw` in tests/nn/golden/autoencoder.py), and
prints how many parameters the models of the papers have. What an image's seed decides (its mask, its order, whether its
class is told) is drawn by Philox, written out here.
"""

import json
import math
import pathlib
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "nn" / "golden"))
from autoencoder import draw, fill, summary

LABEL, MASK_SHARE, MASK, ORDER_CHOICE, ORDER = range(5)


def philox(seed, draw_number, place):
    """The first of the four numbers of Philox4x32-10."""
    counter = [draw_number & 0xFFFFFFFF, draw_number >> 32, place & 0xFFFFFFFF, place >> 32]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & 0xFFFFFFFF, (a >> 32) ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter[0]


def uniform(seeds, draw_number, count):
    rows = [[(philox(s, draw_number, i) >> 8) * 2.0**-24 for i in range(count)] for s in seeds]
    return torch.tensor(rows, dtype=torch.float64)


class RmsNorm(nn.Module):
    def __init__(self, width, eps=1e-5, bias=False):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        y = x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.eps) * self.weight
        return y if self.bias is None else y + self.bias


class LayerNorm(nn.Module):
    def __init__(self, width, eps=1e-6, weights=True):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width)) if weights else None
        self.bias = nn.Parameter(torch.zeros(width)) if weights else None

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        y = centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + self.eps)
        return y if self.weight is None else y * self.weight + self.bias


class Attention(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.o, each = o, o["width"] // o["heads"]
        inner = o["heads"] * each
        self.wqkv = nn.Linear(o["width"], 3 * inner, bias=o["bias"])
        self.wo = nn.Linear(inner, o["width"], bias=o["bias"])
        if o["query_norm"] == "head":
            self.q_norm, self.k_norm = LayerNorm(each), LayerNorm(each)

    def forward(self, x, angles):
        b, t, _ = x.shape
        q, k, v = self.wqkv(x).chunk(3, dim=-1)
        if self.o["query_norm"] == "width":
            q, k = (y / torch.sqrt((y * y).mean(-1, keepdim=True) + 1e-5) for y in (q, k))
        q, k, v = (y.reshape(b, t, self.o["heads"], -1).transpose(1, 2) for y in (q, k, v))
        if self.o["query_norm"] == "head":
            q, k = self.q_norm(q), self.k_norm(k)
        if angles is not None:
            q, k = turn(q, angles), turn(k, angles)
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
        if self.o["causal"]:
            scores = scores.masked_fill(torch.ones(t, t).triu(1).bool(), -math.inf)
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))


def turn(x, angles):
    """Pairs (0, 1), (2, 3), ... of the last dimension by angles [T, pairs]; not-a-number stands for a pair that becomes 0."""
    cos, sin = torch.nan_to_num(angles.cos(), 0.0), torch.nan_to_num(angles.sin(), 0.0)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


class FeedForward(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.w1 = nn.Linear(o["width"], o["hidden"], bias=o["bias"])
        self.w2 = nn.Linear(o["hidden"], o["width"], bias=o["bias"])
        self.w3 = nn.Linear(o["width"], o["hidden"], bias=o["bias"]) if o["gated"] else None

    def forward(self, x):
        y = F.gelu(self.w1(x)) if self.w3 is None else F.silu(self.w1(x)) * self.w3(x)
        return self.w2(y)


class Block(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.attention, self.feed_forward = Attention(o), FeedForward(o)
        norm = RmsNorm if o["gated"] else LayerNorm
        self.attention_norm, self.ffn_norm = norm(o["width"]), norm(o["width"])
        self.modulation = nn.Linear(o["width"], 6 * o["width"]) if o["modulated"] else None

    def forward(self, x, angles=None, condition=None):
        if self.modulation is None:
            x = x + self.attention(self.attention_norm(x), angles)
            return x + self.feed_forward(self.ffn_norm(x))
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(F.silu(condition)).chunk(6, dim=-1)
        x = x + gate1 * self.attention(self.attention_norm(x) * (1 + scale1) + shift1, angles)
        return x + gate2 * self.feed_forward(self.ffn_norm(x) * (1 + scale2) + shift2)


class ModulatedNorm(nn.Module):
    def __init__(self, width, norm):
        super().__init__()
        self.norm, self.modulation = norm, nn.Linear(width, 2 * width)

    def forward(self, x, condition):
        shift, scale = self.modulation(F.silu(condition)).chunk(2, dim=-1)
        return self.norm(x) * (1 + scale) + shift


class Classes(nn.Module):
    def __init__(self, classes, width):
        super().__init__()
        self.embedding_table = nn.Embedding(classes + 1, width)


def swiglu_hidden(width):
    return math.ceil(int(2 * 4 * width / 3) / 256) * 256


class Generator(nn.Module):
    def __init__(self, config, grid):
        super().__init__()
        self.config, self.grid = config, grid
        self.positions = grid["height"] * grid["width"]

    def shown(self, labels, seeds):
        """Labels of training: some are not told."""
        none = self.grid["classes"]
        if labels is None:
            return torch.full([len(seeds)], none)
        return torch.where(uniform(seeds, LABEL, 1)[:, 0] < self.config["label_dropout"], none, labels)

    def cross_entropy(self, logits, tokens):
        return F.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="none").view(tokens.shape).mean(1)


class Ar(Generator):
    def __init__(self, config, grid):
        super().__init__(config, grid)
        width = config["width"]
        o = {**config, "hidden": config["hidden"] or swiglu_hidden(width), "query_norm": "none", "gated": True,
             "bias": False, "modulated": False, "causal": True}
        self.tok_embeddings = nn.Embedding(grid["codes"], width)
        self.cls_embedding = Classes(grid["classes"], width)
        self.layers = nn.ModuleList(Block(o) for _ in range(config["depth"]))
        self.norm = RmsNorm(width)
        self.output = nn.Linear(width, grid["codes"], bias=False)

    def angles(self):
        half = self.config["width"] // self.config["heads"] // 2
        frequencies = [10000.0 ** (-i / half) for i in range(0, half, 2)]
        rows = [[math.nan] * half]
        for row in range(self.grid["height"]):
            for column in range(self.grid["width"]):
                rows.append([row * f for f in frequencies] + [column * f for f in frequencies])
        return torch.tensor(rows, dtype=torch.float64)

    def forward(self, tokens, labels, seeds, progress):
        start = self.cls_embedding.embedding_table(self.shown(labels, seeds))[:, None]
        x = torch.cat([start, self.tok_embeddings(tokens[:, :-1])], dim=1)
        for layer in self.layers:
            x = layer(x, angles=self.angles()[:x.shape[1]])
        return self.cross_entropy(self.output(self.norm(x)), tokens)


class Masked(Generator):
    def __init__(self, config, grid):
        super().__init__(config, grid)
        width = config["width"]
        o = {**config, "hidden": config["hidden"] or swiglu_hidden(width), "query_norm": "width", "gated": True,
             "bias": False, "modulated": True, "causal": False}
        self.cls_emb = Classes(grid["classes"], width)
        self.tok_emb = nn.Embedding(grid["codes"] + 1, width)
        self.pos_emb = nn.Embedding(self.positions, width)
        if config["registers"]:
            self.reg_tokens = nn.Embedding(config["registers"], width)
        self.layers = nn.ModuleList(Block(o) for _ in range(config["depth"]))
        self.last_norm = ModulatedNorm(width, RmsNorm(width, bias=True))
        self.output = nn.Module()
        self.output.bias = nn.Parameter(torch.zeros(grid["codes"] + 1))

    def forward(self, tokens, labels, seeds, progress):
        share = torch.arccos(uniform(seeds, MASK_SHARE, 1)) / (math.pi / 2)
        masked = uniform(seeds, MASK, self.positions) < share
        x = self.tok_emb(torch.where(masked, self.grid["codes"], tokens)) + self.pos_emb.weight
        if self.config["registers"]:
            x = torch.cat([x, self.reg_tokens.weight.expand(len(seeds), -1, -1)], dim=1)
        condition = self.cls_emb.embedding_table(self.shown(labels, seeds))[:, None]
        for layer in self.layers:
            x = layer(x, condition=condition)
        x = self.last_norm(x[:, :self.positions], condition)
        return self.cross_entropy(F.linear(x, self.tok_emb.weight, self.output.bias), tokens)


class Rar(Generator):
    def __init__(self, config, grid):
        super().__init__(config, grid)
        width = config["width"]
        o = {**config, "hidden": config["hidden"] or 4 * width, "query_norm": "head", "gated": False, "bias": True,
             "modulated": True, "causal": True}
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.layers = nn.ModuleList(Block(o) for _ in range(config["depth"]))
        self.embeddings = nn.Embedding(grid["codes"] + 1 + grid["classes"] + 1, width)
        self.pos_embed = nn.Embedding(self.positions + 1024, width)
        self.target_aware_pos_embed = nn.Embedding(self.positions + 1024, width)
        self.timesteps_embeddings = nn.Embedding(self.positions + 100, width)
        self.adaln_before_head = ModulatedNorm(width, LayerNorm(width, weights=False))
        self.lm_head = nn.Linear(width, grid["codes"])

    def order(self, seeds, progress):
        share = min(max((self.config["anneal_to"] - progress)
                        / (self.config["anneal_to"] - self.config["anneal_from"]), 0.0), 1.0)
        choice = uniform(seeds, ORDER_CHOICE, 1)[:, 0]
        shuffled = uniform(seeds, ORDER, self.positions).argsort(dim=1, stable=True)
        return torch.where((choice < share)[:, None], shuffled, torch.arange(self.positions))

    def forward(self, tokens, labels, seeds, progress):
        order = self.order(seeds, progress)
        tokens = tokens.gather(1, order)
        label = self.embeddings(self.shown(labels, seeds) + self.grid["codes"] + 1)[:, None]
        first = self.cls_token.expand(len(seeds), -1, -1)
        x = torch.cat([first, label, self.embeddings(tokens)], dim=1)
        x = x + torch.cat([self.pos_embed.weight[:2].expand(len(seeds), -1, -1), self.pos_embed(order + 2)], dim=1)
        nothing = torch.zeros_like(first)
        x = x + torch.cat([nothing, self.target_aware_pos_embed(order + 2), nothing], dim=1)
        condition = label + self.timesteps_embeddings.weight[:x.shape[1]]
        for layer in self.layers:
            x = layer(x, condition=condition)
        logits = self.lm_head(self.adaln_before_head(x[:, 1:-1], condition[:, 1:-1]))
        return self.cross_entropy(logits, tokens)


FAMILIES = {"ar": Ar, "masked": Masked, "rar": Rar}
DEFAULTS = {"hidden": 0, "label_dropout": 0.1, "registers": 1, "anneal_from": 0.5, "anneal_to": 0.75}

# What follows makes the golden values: family, settings, grid, images, progress.
CASES = {
    "ar": ("ar", {"width": 16, "depth": 2, "heads": 2, "hidden": 24, "label_dropout": 0.5}, [3, 5, 11, 4], 3, 0.0),
    "ar_without_classes": ("ar", {"width": 12, "depth": 1, "heads": 3}, [1, 7, 5, 0], 2, 0.0),
    "masked": ("masked", {"width": 14, "depth": 2, "heads": 2, "hidden": 20, "label_dropout": 0.5}, [4, 3, 9, 3], 4, 0.0),
    "masked_uneven_heads": ("masked", {"width": 16, "depth": 1, "heads": 3, "registers": 0}, [2, 2, 6, 0], 3, 0.0),
    "rar_random": ("rar", {"width": 12, "depth": 2, "heads": 2, "hidden": 20, "label_dropout": 0.5}, [3, 4, 7, 5], 3, 0.25),
    "rar_some": ("rar", {"width": 8, "depth": 1, "heads": 1}, [2, 5, 6, 0], 5, 0.6),
}


def golden(name, family, config, grid, images, progress):
    config = {**DEFAULTS, **config}
    grid = dict(zip(("height", "width", "codes", "classes"), grid))
    model = FAMILIES[family](config, grid).double()
    fill(model, "generator.")
    positions = grid["height"] * grid["width"]
    chosen = lambda what, count, most: [int(v) for v in np.floor((draw(what, count) + 1) / 2 * most)]
    tokens = chosen(name + " tokens", images * positions, grid["codes"])
    labels = chosen(name + " labels", images, grid["classes"]) if grid["classes"] else []
    seeds = chosen(name + " seeds", images, 2**62)
    losses = model(torch.tensor(tokens).view(images, positions), torch.tensor(labels) if labels else None, seeds, progress)
    (losses * torch.from_numpy(draw("loss", images)).float().double()).sum().backward()
    gradients = {key: summary(p.grad, 3) for key, p in model.named_parameters()}
    return {"family": family, "config": config, "grid": grid, "progress": progress, "tokens": tokens, "labels": labels,
            "seeds": seeds, "losses": losses.tolist(), "gradients": gradients}


PAPERS = {
    "LlamaGen-B": ("ar", 768, 12, 12, 16384), "LlamaGen-L": ("ar", 1024, 24, 16, 16384),
    "LlamaGen-XL": ("ar", 1280, 36, 20, 16384), "LlamaGen-XXL": ("ar", 1536, 48, 24, 16384),
    "Halton-S": ("masked", 512, 12, 6, 16384), "Halton-B": ("masked", 768, 12, 12, 16384),
    "RAR-B": ("rar", 768, 24, 16, 1024), "RAR-L": ("rar", 1024, 24, 16, 1024),
}


def main():
    path = pathlib.Path(__file__).with_suffix(".json")
    lines = [f"{json.dumps(name)}: {json.dumps(golden(name, *case))}" for name, case in CASES.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    with torch.device("meta"):
        for name, (family, width, depth, heads, codes) in PAPERS.items():
            model = FAMILIES[family]({**DEFAULTS, "width": width, "depth": depth, "heads": heads},
                                     {"height": 16, "width": 16, "codes": codes, "classes": 1000})
            print(name, sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":
    main()
