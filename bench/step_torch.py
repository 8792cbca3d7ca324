"""A training step and tokenising in PyTorch, eager and by torch.compile: what `nsvq bench step` and `nsvq bench
tokenize` stand beside.

step_torch.py [--device cuda|cpu] [--batch 32] [--size 128] [--width 128] [--codes 65536] [--quantizer nsvq|vq]
              [--precision bf16|tf32] [--rounds 20] [--backend inductor] [--only step|tokenize]

The paper's model (the encoder and decoder of tests/nn/golden/autoencoder.py), VQ with or without the NS loss,
L1 + LPIPS on VGG16 + PatchGAN, Adam for both sides, weight average; images are random and on the device. Weights
are random, which does not change the time. Channels-last with torch.compile, as PyTorch is fastest so.
"""

import argparse
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "nn" / "golden"))
from autoencoder import Autoencoder

TAU, ALPHA, BETA = 0.35, 0.1, 0.25


def vgg_blocks():
    blocks, inputs = nn.ModuleList(), 3
    for channels, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        layers = [] if inputs == 3 else [nn.MaxPool2d(2)]
        for _ in range(count):
            layers += [nn.Conv2d(inputs, channels, 3, padding=1), nn.ReLU()]
            inputs = channels
        blocks.append(nn.Sequential(*layers))
    return blocks.requires_grad_(False)


class Lpips(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = vgg_blocks()
        self.heads = nn.ParameterList([nn.Parameter(torch.rand(c), requires_grad=False)
                                       for c in (64, 128, 256, 512, 512)])
        self.register_buffer("shift", torch.tensor([-0.030, -0.088, -0.188]).view(1, 3, 1, 1))
        self.register_buffer("scale", torch.tensor([0.458, 0.448, 0.450]).view(1, 3, 1, 1))

    def features(self, x):
        found = []
        x = (x - self.shift) / self.scale
        for block in self.blocks:
            x = block(x)
            found.append(x)
        return found

    def forward(self, ours, theirs):
        with torch.no_grad():
            theirs = self.features(theirs)
        total = 0
        for a, b, head in zip(self.features(ours), theirs, self.heads):
            a, b = (x.float() / (x.float().norm(dim=1, keepdim=True) + 1e-10) for x in (a, b))
            total = total + ((a - b).square().mean((2, 3)) @ head).mean()
        return total


def discriminator():
    layers, inputs = [nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2)], 64
    for outputs, stride in ((128, 2), (256, 2), (512, 1)):
        layers += [nn.Conv2d(inputs, outputs, 4, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2)]
        inputs = outputs
    return nn.Sequential(*layers, nn.Conv2d(inputs, 1, 4, 1, 1))


def quantize(latents, codebook, neighbours):
    flat = latents.permute(0, 2, 3, 1).reshape(-1, codebook.shape[1]).float()
    z = flat.detach()
    distances = torch.addmm(codebook.square().sum(1), z, codebook.t(), alpha=-2) + z.square().sum(1, keepdim=True)
    indices = distances.detach().argmin(1)
    codes = codebook[indices]
    loss = (codes - z).square().mean() + BETA * (flat - codes.detach()).square().mean()
    if neighbours:
        weights = (distances.detach() / -TAU).softmax(1).scatter(1, indices.unsqueeze(1), 0)
        loss = loss + ALPHA * (weights * distances).sum() / z.numel()
    through = flat + (codes - flat).detach()
    return through.view(latents.shape[0], *latents.shape[2:], -1).permute(0, 3, 1, 2), loss


class Step:
    def __init__(self, options):
        self.options, device = options, options.device
        config = {"width": options.width, "multipliers": [1, 2, 2, 4], "blocks": 2, "latent_dim": 128,
                  "attention": [], "mid_attention": False}
        self.model = Autoencoder(config).to(device)
        self.codebook = nn.Parameter(torch.randn(options.codes, 128, device=device) / 128**0.5)
        self.judge, self.lpips = discriminator().to(device), Lpips().to(device)
        self.weights = [*self.model.parameters(), self.codebook]
        self.average = [one.detach().clone() for one in self.weights]
        fused = {"lr": 1e-4, "betas": (0.5, 0.9), "fused": True}
        self.adam = torch.optim.Adam(self.weights, **fused)
        self.judge_adam = torch.optim.Adam(self.judge.parameters(), **fused)
        self.images = torch.rand(options.batch, 3, options.size, options.size, device=device) * 2 - 1

    def compile(self):
        options = self.options
        for module in (self.model, self.judge, self.lpips):
            module.to(memory_format=torch.channels_last)
        self.images = self.images.contiguous(memory_format=torch.channels_last)
        self.generator = torch.compile(self.generator, backend=options.backend)
        self.opponent = torch.compile(self.opponent, backend=options.backend)
        self.encode = torch.compile(self.encode, backend=options.backend)

    def casting(self):
        return torch.autocast(self.options.device, torch.bfloat16, enabled=self.options.precision == "bf16")

    def generator(self, images):
        with self.casting():
            codes, loss = quantize(self.model.encoder(images), self.codebook, self.options.quantizer == "nsvq")
            reconstructions = self.model.decoder(codes).float()
            loss = loss + F.l1_loss(reconstructions, images) + self.lpips(reconstructions, images)
            logits = self.judge(reconstructions).float()
        return loss + F.softplus(-logits.mean((1, 2, 3))).mean(), reconstructions

    def opponent(self, images, reconstructions):
        with self.casting():
            real, fake = self.judge(images).float(), self.judge(reconstructions).float()
        return 0.5 * (F.relu(1 - real).mean() + F.relu(1 + fake).mean())

    def __call__(self):
        for parameter in self.judge.parameters():
            parameter.requires_grad_(False)
        loss, reconstructions = self.generator(self.images)
        self.adam.zero_grad()
        loss.backward()
        for parameter in self.judge.parameters():
            parameter.requires_grad_(True)
        opposed = self.opponent(self.images, reconstructions.detach())
        self.judge_adam.zero_grad()
        opposed.backward()
        self.loss = loss.detach()
        self.adam.step()
        self.judge_adam.step()
        torch._foreach_lerp_(self.average, self.weights, 0.001)

    def encode(self, images):
        with torch.no_grad(), self.casting():
            latents = self.model.encoder(images).permute(0, 2, 3, 1).reshape(-1, 128).float()
            return torch.addmm(self.codebook.square().sum(1), latents, self.codebook.t(), alpha=-2).argmin(1)


def measure(work, options):
    """Milliseconds (a median) and GiB at most, allocated and reserved."""
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    for _ in range(3):
        work()
    wait()
    if options.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(options.rounds):
        start = time.perf_counter()
        work()
        wait()
        times.append(1e3 * (time.perf_counter() - start))
    on_gpu = options.device == "cuda"
    memory = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else float("nan")
    reserved = torch.cuda.max_memory_reserved() / 2**30 if on_gpu else float("nan")
    return statistics.median(times), memory, reserved


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("device", "cuda"), ("batch", 32), ("size", 128), ("width", 128), ("codes", 65536),
                          ("quantizer", "nsvq"), ("precision", "bf16"), ("rounds", 20), ("backend", "inductor"),
                          ("only", "")):
        parser.add_argument(f"--{name}", default=default, type=type(default))
    return parser.parse_args()


def main():
    options = parse_options()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    print("| PyTorch | ms | img/s | peak GiB | reserved |\n|---|---|---|---|---|")
    for mode in ("eager", "compile"):
        step = Step(options)
        if mode == "compile":
            step.compile()
        work = {"step": step, "tokenize": lambda: step.encode(step.images)}
        for name, one in work.items():
            if options.only not in name:
                continue
            milliseconds, memory, reserved = measure(one, options)
            print(f"| {name}, {mode} | {milliseconds:.1f} | {1e3 * options.batch / milliseconds:.0f} | {memory:.2f} | "
                  f"{reserved:.2f} |", flush=True)
        del step, work


if __name__ == "__main__":
    main()
