"""A small autoencoder of drawn images with nsvq.VectorQuantize, and with lucidrains' where it is installed.

    python examples/python/autoencoder.py [--steps 400] [--codes 1024] [--device cpu]

Both quantizers get the same arguments, first weights and images. Prints PSNR of held-out images, codes that these use, and time.
"""

import argparse
import time

import torch
from torch import nn
from torch.nn import functional as F

import nsvq

SIZE = 32


def images(count, seed):
    """Discs of random colours, places and sizes over a gradient: [count, 3, SIZE, SIZE] in [-1, 1]."""
    draw = torch.Generator().manual_seed(seed)
    y, x = torch.meshgrid(torch.linspace(0, 1, SIZE), torch.linspace(0, 1, SIZE), indexing="ij")
    slope = torch.rand(count, 3, 2, 1, 1, generator=draw) * 2 - 1
    picture = slope[:, :, 0] * x + slope[:, :, 1] * y
    for _ in range(4):
        place, radius = torch.rand(count, 2, 1, 1, generator=draw), 0.05 + 0.2 * torch.rand(count, 1, 1, generator=draw)
        inside = ((x - place[:, 0]).square() + (y - place[:, 1]).square() < radius.square()).unsqueeze(1)
        picture = torch.where(inside, torch.rand(count, 3, 1, 1, generator=draw) * 2 - 1, picture)
    return picture.clamp(-1, 1)


class Autoencoder(nn.Module):
    def __init__(self, quantizer, width=48, channels=16):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, width, 4, 2, 1), nn.SiLU(), nn.Conv2d(width, width, 4, 2, 1), nn.SiLU(),
                                     nn.Conv2d(width, channels, 1))
        self.quantizer = quantizer
        self.decoder = nn.Sequential(nn.Conv2d(channels, width, 3, 1, 1), nn.SiLU(), nn.ConvTranspose2d(width, width, 4, 2, 1),
                                     nn.SiLU(), nn.ConvTranspose2d(width, 3, 4, 2, 1))

    def forward(self, picture):
        quantized, indices, loss = self.quantizer(self.encoder(picture))
        return self.decoder(quantized), indices, loss


def train(name, make, options):
    torch.manual_seed(0)
    model = Autoencoder(make(dim=16, codebook_size=options.codes, accept_image_fmap=True, threshold_ema_dead_code=0.01))
    model.to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    data, held_out = images(4096, 0).to(options.device), images(512, 1).to(options.device)
    start = time.perf_counter()
    for step in range(options.steps):
        picture = data[torch.randint(len(data), (64,), device=options.device)]
        decoded, _, loss = model(picture)
        optimizer.zero_grad()
        (F.mse_loss(decoded, picture) + 0.1 * loss).backward()
        optimizer.step()
    if options.device != "cpu":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    model.eval()
    with torch.no_grad():
        decoded, indices, _ = model(held_out)
    psnr = -10 * (F.mse_loss(decoded.clamp(-1, 1), held_out) / 4).log10().item()
    print(f"{name:24} PSNR {psnr:5.2f} dB   {len(indices.unique()):5} of {options.codes} codes   {seconds:6.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--codes", type=int, default=1024)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    train("nsvq", nsvq.VectorQuantize, options)
    try:
        import vector_quantize_pytorch
    except ImportError:
        print("vector-quantize-pytorch is not installed: pip install vector-quantize-pytorch")
        return
    train("vector-quantize-pytorch", vector_quantize_pytorch.VectorQuantize, options)


if __name__ == "__main__":
    main()
