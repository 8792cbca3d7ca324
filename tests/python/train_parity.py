"""Ten steps of training beside PyTorch: `nsvq train` and plain torch.nn, torch.optim.Adam and autograd.

    run.sh train_parity.py NSVQ

Both start from the checkpoint of the first step (weights, moments, running statistics) and see the same pictures, all
of them in every batch, so that the order in a batch changes nothing but the order of sums. The method is written out
below from the paper: stage 1 with the NS loss, L1 + L2, and a discriminator from the first step. (LeCAM is on because
with the hinge alone the gradient of the discriminator's last bias is a difference of equal numbers, and Adam makes
whole steps of what rounding leaves of it.)

The PyTorch side computes in fp64, so what differs is the rounding of nsvq's fp32 (2^-24 = 6e-8), amplified by ten
steps of Adam. How much that may be is measured, not guessed: the PyTorch side runs in fp32 too, and nsvq may be off by
at most SLACK times as much, or by the floors where that run happens to be closer. Weights are compared by how far they
moved since the checkpoint: |ours - theirs| / |theirs - start|, one figure a tensor. Adam divides each gradient by its
own size, so an element whose gradient is next to nothing moves by rounding alone; such elements are few in a tensor.

So that agreement means something, the PyTorch side is then made wrong in one place at a time (WRONG), and the
comparison has to notice each.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image
from safetensors import safe_open

try:
    import torch
    from torch.nn import functional as F
except ImportError:
    print("skipped: built with a torch of another Python version")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "nn" / "golden"))
from autoencoder import Autoencoder
from discriminator import Discriminator

STEPS = 10
FEW_STEPS = 1  # show a mistake
MODEL = {"width": 8, "multipliers": [1, 2], "blocks": 1, "latent_dim": 8}
METHOD = {
    "l1": 1.0, "l2": 0.5, "beta": 0.25, "alpha": 0.1, "tau": 0.35, "adversarial": 0.3, "lecam": 0.1,
    "lr": 1e-3, "beta1": 0.5, "beta2": 0.9, "eps": 1e-8, "average": 0.9,
    "softmax_has_gradient": False, "ns_moves_latents": False, "winner_in_ns": False,
    "embedding_moves_latents": False, "straight_through": True, "fakes_detached": True,
}
# Each is a mistake that a trainer could make.
WRONG = [
    {"alpha": 0.11}, {"tau": 0.36}, {"beta": 0.26}, {"l2": 0.51}, {"adversarial": 0.31},
    {"lecam": 0.11}, {"lr": 1.01e-3}, {"beta2": 0.901}, {"average": 0.901},
    {"softmax_has_gradient": True}, {"ns_moves_latents": True}, {"winner_in_ns": True},
    {"embedding_moves_latents": True}, {"straight_through": False}, {"fakes_detached": False},
]
SLACK, FLOOR_OF_TERMS, FLOOR_OF_TENSORS = 10, 1e-5, 1e-3
SIZE, PICTURES = 16, 8
RECIPE = f"""
device: cpu
threads: 1
data: {{train: FOLDER, val: FOLDER, size: {SIZE}, crop: center, flip: false}}
model: {{width: 8, multipliers: [1, 2], blocks: 1, latent_dim: 8}}
quantizer: {{type: nsvq, codes: 32, beta: 0.25, alpha: 0.1, tau: 0.35}}
loss: {{l1: 1, l2: 0.5}}
adversarial: {{weight: 0.3, lecam: 0.1, width: 4, layers: 1}}
optimizer: {{lr: 1e-3, beta1: 0.5, beta2: 0.9, eps: 1e-8, ema_decay: 0.9}}
replacement: {{policy: none}}
schedule: {{phases: [stage1], freeze: never}}
train: {{steps: {STEPS + 1}, batch_size: {PICTURES}, precision: fp32, graphs: false, log_every: 1, eval_every: 0,
         samples_every: 0}}
drift: {{images: 0}}
checkpoint: {{every_steps: 1, keep: 100}}
"""


def make_pictures(folder):
    rng = np.random.default_rng(0)
    pixels = []
    for i in range(PICTURES):
        coarse = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
        picture = coarse.resize((SIZE, SIZE), Image.Resampling.BICUBIC)
        picture.save(folder / f"{i}.png")
        pixels.append(np.asarray(picture))
    return np.stack(pixels)


def load_file(path):
    with safe_open(path, "pt") as tensors:
        return {key: tensors.get_tensor(key) for key in tensors.keys()}


class Checkpoint:
    """All that training changes, by name: the two networks, their moments, the average of the first."""

    def __init__(self, run, step):
        folder = run / "checkpoints" / f"step-{step}"
        self.training = load_file(folder / "training.safetensors")
        self.average = load_file(folder / "model.safetensors")

    def part(self, prefix):
        return {key[len(prefix):]: value for key, value in self.training.items() if key.startswith(prefix)}


def adam(module, moments, method):
    """torch.optim.Adam in the midst of a training."""
    optimizer = torch.optim.Adam(module.parameters(), method["lr"], (method["beta1"], method["beta2"]), method["eps"])
    for name, parameter in module.named_parameters():
        optimizer.state[parameter] = {"step": moments[name + ".steps"].float().clone(),
                                      "exp_avg": moments[name + ".moment1"].to(parameter.dtype).clone(),
                                      "exp_avg_sq": moments[name + ".moment2"].to(parameter.dtype).clone()}
    return optimizer


class Tokenizer(Autoencoder):
    """With the names of nsvq's checkpoints."""

    def __init__(self, codebook):
        super().__init__(MODEL)
        self.quantizer = torch.nn.Module()
        self.quantizer.codebook = torch.nn.Parameter(codebook.clone())


def ns_loss(latents, codebook, winners, method):
    """1 / (N d) sum_i sum_{j != q_i} p_ij |sg(z_i) - c_j|^2, p_i = sg softmax_j(-|z_i - c_j|^2 / tau)."""
    if not method["ns_moves_latents"]:
        latents = latents.detach()
    distances = (latents.unsqueeze(1) - codebook.unsqueeze(0)).square().sum(2)
    weights = (-distances / method["tau"]).softmax(1)
    if not method["softmax_has_gradient"]:
        weights = weights.detach()
    if not method["winner_in_ns"]:
        weights = weights * (1 - F.one_hot(winners, len(codebook)))
    return (weights * distances).sum() / latents.numel()


def quantize(latents, codebook, method):
    """Codes with straight-through gradients and the terms of L_vq."""
    flat = latents.permute(0, 2, 3, 1).reshape(-1, latents.shape[1])
    winners = (flat.detach().unsqueeze(1) - codebook.detach().unsqueeze(0)).square().sum(2).argmin(1)
    codes = codebook[winners]
    targets = flat if method["embedding_moves_latents"] else flat.detach()
    terms = {"embedding": (targets - codes).square().mean(), "commitment": (flat - codes.detach()).square().mean(),
             "ns": ns_loss(flat, codebook, winners, method)}
    terms["vq"] = terms["embedding"] + method["beta"] * terms["commitment"] + method["alpha"] * terms["ns"]
    through = flat + (codes - flat).detach() if method["straight_through"] else codes.detach()
    shape = (len(latents), *latents.shape[2:], latents.shape[1])
    return through.reshape(shape).permute(0, 3, 1, 2), terms


class Trainer:
    def __init__(self, checkpoint, images, method, dtype):
        weights = checkpoint.part("model.")
        self.method, self.images = method, images.to(dtype)
        self.model = Tokenizer(weights["quantizer.codebook"]).to(dtype)
        self.model.load_state_dict(weights, strict=True)
        self.judge = Discriminator(width=4, layers=1).to(dtype)
        self.judge.load_state_dict(checkpoint.part("discriminator.model."), strict=True)
        self.adam = adam(self.model, checkpoint.part("adam."), method)
        self.judge_adam = adam(self.judge, checkpoint.part("discriminator.adam."), method)
        self.average = {name: value.to(dtype, copy=True) for name, value in checkpoint.average.items()}
        self.running = {name: value.item() for name, value in checkpoint.part("discriminator.lecam.ema_").items()}

    def step(self):
        """Both sides' gradients are computed before either moves. Returns the terms by their names in metrics.jsonl."""
        method = self.method
        codes, terms = quantize(self.model.encoder(self.images), self.model.quantizer.codebook, method)
        made = self.model.decoder(codes)
        terms["l1"], terms["l2"] = (made - self.images).abs().mean(), (made - self.images).square().mean()
        terms["generator"] = F.softplus(-self.judge(made).mean((1, 2, 3))).mean()
        terms["loss"] = (method["l1"] * terms["l1"] + method["l2"] * terms["l2"] + terms["vq"]
                         + method["adversarial"] * terms["generator"])
        self.adam.zero_grad()
        terms["loss"].backward(retain_graph=True)
        self.judge_adam.zero_grad()
        real, fake = self.judge(self.images), self.judge(made.detach() if method["fakes_detached"] else made)
        terms["discriminator"] = 0.5 * (F.relu(1 - real).mean() + F.relu(1 + fake).mean())
        (terms["discriminator"] + method["lecam"] * self.lecam_penalty(real, fake, terms)).backward()
        self.adam.step()
        self.judge_adam.step()
        for name, parameter in self.model.named_parameters():
            self.average[name].lerp_(parameter.detach(), 1 - method["average"])
        return {name: value.item() for name, value in terms.items()}

    def lecam_penalty(self, real, fake, terms):
        for name, logits in (("real", real), ("fake", fake)):
            self.running[name] = 0.999 * self.running[name] + 0.001 * logits.detach().double().mean().item()
        terms["lecam"] = (F.relu(real - self.running["fake"]).square().mean()
                          + F.relu(self.running["real"] - fake).square().mean())
        return terms["lecam"]

    def tensors(self):
        return {**{"model." + name: value for name, value in self.model.state_dict().items()},
                **{"discriminator.model." + name: value for name, value in self.judge.state_dict().items()},
                **{"average." + name: value for name, value in self.average.items()}}


def train(checkpoint, images, steps, dtype=torch.float64, **changes):
    trainer = Trainer(checkpoint, images, {**METHOD, **changes}, dtype)
    return [trainer.step() for _ in range(steps)], trainer.tensors()


def trained(run, steps):
    """What nsvq's steps after the first left behind: terms of each, tensors."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    terms = [line for line in lines if line["kind"] == "step" and 1 < line["step"] <= steps + 1]
    return terms, named(Checkpoint(run, steps + 1))


def named(checkpoint):
    return {**{key: value for key, value in checkpoint.training.items()
               if key.startswith(("model.", "discriminator.model."))},
            **{"average." + key: value for key, value in checkpoint.average.items()}}


def differences(ours, theirs, start):
    """How far two trainings are apart: each term's largest relative difference, each tensor's in its movement."""
    (our_terms, our_tensors), (their_terms, their_tensors) = ours, theirs
    result = {}
    for name in their_terms[0]:
        result[name] = max(abs(a[name] - b[name]) / abs(b[name]) for a, b in zip(our_terms, their_terms, strict=True))
    assert our_tensors.keys() == their_tensors.keys() == start.keys()
    for name, theirs in their_tensors.items():
        moved = (theirs.double() - start[name].double()).norm()
        assert moved > 0, f"{name} did not move"
        result[name] = ((our_tensors[name].double() - theirs.double()).norm() / moved).item()
    return result


def complaints(found, allowed):
    return [f"{name}: {value:.1e}, allowed {allowed[name]:.1e}" for name, value in found.items()
            if not value <= allowed[name]]


def main(nsvq):
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder, run = pathlib.Path(name) / "pictures", pathlib.Path(name) / "run"
        folder.mkdir()
        pixels = make_pictures(folder)
        recipe = folder.parent / "recipe.yaml"
        recipe.write_text(RECIPE.replace("FOLDER", str(folder)))
        subprocess.run([nsvq, "train", recipe, "--run", run], check=True, capture_output=True)
        first, ours, ours_early = Checkpoint(run, 1), trained(run, STEPS), trained(run, FEW_STEPS)
    images, start = torch.from_numpy(pixels).permute(0, 3, 1, 2) / 127.5 - 1, named(first)

    exact = train(first, images, STEPS)
    rounded = differences(train(first, images, STEPS, torch.float32), exact, start)
    found = differences(ours, exact, start)
    floors = {key: FLOOR_OF_TENSORS if "." in key else FLOOR_OF_TERMS for key in rounded}
    allowed = {key: max(SLACK * value, floors[key]) for key, value in rounded.items()}
    worst = sorted(found, key=lambda key: found[key] / allowed[key])[-8:]
    print(f"{'relative difference from fp64':44} {'nsvq':>9} {'torch fp32':>11} {'allowed':>9}")
    for key in [*list(exact[0][0]), *worst]:
        print(f"{key:44} {found[key]:9.1e} {rounded[key]:11.1e} {allowed[key]:9.1e}")
    wrong = complaints(found, allowed)
    assert not wrong, "\n".join(wrong)

    for change in WRONG:
        noticed = complaints(differences(ours_early, train(first, images, FEW_STEPS, **change), start), allowed)
        print(f"{change}: {len(noticed)} differences")
        assert noticed, f"the comparison does not notice {change}"


main(sys.argv[1])
