"""A small transformer that learns images as rows of tokens and makes new ones:

    nsvq tokenize RUN --data IMAGES --out tokens/
    python examples/python/transformer.py tokens/ [--steps 500] [--model RUN --out samples.png]

With --model and --out the samples become a picture (needs Pillow). Needs the package nsvq.
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

import nsvq


class Transformer(nn.Module):
    """Logits [B, n, K] of each token by those before it. Token K is the one that every image begins with."""

    def __init__(self, codes, length, width=128, depth=4, heads=4):
        super().__init__()
        self.tokens, self.places = nn.Embedding(codes + 1, width), nn.Parameter(0.02 * torch.randn(length, width))
        block = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0, activation="gelu", batch_first=True,
                                           norm_first=True)
        self.blocks = nn.TransformerEncoder(block, depth, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, codes)
        self.codes, self.length = codes, length

    def forward(self, before):
        n = before.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(n, device=before.device)
        return self.head(self.norm(self.blocks(self.tokens(before) + self.places[:n], mask=mask, is_causal=True)))

    @torch.no_grad()
    def sample(self, count):
        rows = torch.full((count, 1), self.codes, device=self.places.device)
        for _ in range(self.length):
            rows = torch.cat([rows, torch.multinomial(self(rows)[:, -1].softmax(-1), 1)], 1)
        return rows[:, 1:]


def train(data, steps, batch_size=32, rate=1e-3, **sizes):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Transformer(data.codes, data[0]["tokens"].numel(), **sizes).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), rate, betas=(0.9, 0.95))
    stream, step, losses = data.stream(shuffle=True, seed=0), 0, []
    while step < steps:
        for batch in DataLoader(stream, batch_size, drop_last=len(data) >= batch_size):
            rows = batch["tokens"].flatten(1).to(device)
            before = F.pad(rows[:, :-1], (1, 0), value=data.codes)
            loss = F.cross_entropy(model(before).flatten(0, 1), rows.flatten())
            optimizer.zero_grad(), loss.backward(), optimizer.step()
            step += 1
            losses.append(loss.item())
            if step % 20 == 0:
                print(f"step {step}: {losses[-1]:.3f} nats a token", flush=True)
            if step == steps:
                break
    return model, losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokens"), parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--model"), parser.add_argument("--out")
    words = parser.parse_args()
    data = nsvq.TokenDataset(words.tokens)
    model, _ = train(data, words.steps)
    if words.out:
        from PIL import Image
        pictures = nsvq.Tokenizer.from_pretrained(words.model).decode(model.sample(8).cpu().view(8, *data.grid))
        row = ((torch.cat(list(pictures), 2) + 1) * 127.5).clamp(0, 255).byte().permute(1, 2, 0)
        Image.fromarray(row.contiguous().numpy()).save(words.out)
