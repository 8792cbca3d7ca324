"""FID in plain PyTorch and SciPy, for eval_parity.py and fid_parity.py: pytorch-fid's InceptionV3 and the distance of two sets."""

import hashlib
import math

import numpy as np
import scipy.linalg
import scipy.spatial
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F


class Conv(nn.Module):
    def __init__(self, inputs, outputs, kernel, **options):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, bias=False, **options)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


def average(x):
    return F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)


def largest(x):
    return F.max_pool2d(x, 3, 1, 1)


def halved(x):
    return F.max_pool2d(x, 3, 2)


class Block(nn.Module):
    """`run(self, x)` gives the parts of the output, by convolutions that `sizes` names."""

    def __init__(self, sizes, run):
        super().__init__()
        for name, (inputs, outputs, kernel, *stride) in sizes.items():
            height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
            options = {"stride": 2} if stride else {"padding": (height // 2, width // 2)}
            setattr(self, name, Conv(inputs, outputs, (height, width), **options))
        self.run = run

    def forward(self, x):
        return torch.cat(self.run(self, x), 1)


def run_a(b, x):
    double = b.branch3x3dbl_3(b.branch3x3dbl_2(b.branch3x3dbl_1(x)))
    return [b.branch1x1(x), b.branch5x5_2(b.branch5x5_1(x)), double, b.branch_pool(average(x))]


def block_a(inputs, pool):
    sizes = {"branch1x1": (inputs, 64, 1), "branch5x5_1": (inputs, 48, 1), "branch5x5_2": (48, 64, 5)}
    sizes |= {"branch3x3dbl_1": (inputs, 64, 1), "branch3x3dbl_2": (64, 96, 3), "branch3x3dbl_3": (96, 96, 3)}
    return Block(sizes | {"branch_pool": (inputs, pool, 1)}, run_a)


def run_b(b, x):
    return [b.branch3x3(x), b.branch3x3dbl_3(b.branch3x3dbl_2(b.branch3x3dbl_1(x))), halved(x)]


def block_b():
    sizes = {"branch3x3": (288, 384, 3, "halved"), "branch3x3dbl_1": (288, 64, 1), "branch3x3dbl_2": (64, 96, 3)}
    return Block(sizes | {"branch3x3dbl_3": (96, 96, 3, "halved")}, run_b)


def run_c(b, x):
    double = b.branch7x7dbl_3(b.branch7x7dbl_2(b.branch7x7dbl_1(x)))
    double = b.branch7x7dbl_5(b.branch7x7dbl_4(double))
    return [b.branch1x1(x), b.branch7x7_3(b.branch7x7_2(b.branch7x7_1(x))), double, b.branch_pool(average(x))]


def block_c(n):
    sizes = {"branch1x1": (768, 192, 1), "branch_pool": (768, 192, 1), "branch7x7_1": (768, n, 1)}
    sizes |= {"branch7x7_2": (n, n, (1, 7)), "branch7x7_3": (n, 192, (7, 1)), "branch7x7dbl_1": (768, n, 1)}
    sizes |= {"branch7x7dbl_2": (n, n, (7, 1)), "branch7x7dbl_3": (n, n, (1, 7))}
    return Block(sizes | {"branch7x7dbl_4": (n, n, (7, 1)), "branch7x7dbl_5": (n, 192, (1, 7))}, run_c)


def run_d(b, x):
    long = b.branch7x7x3_4(b.branch7x7x3_3(b.branch7x7x3_2(b.branch7x7x3_1(x))))
    return [b.branch3x3_2(b.branch3x3_1(x)), long, halved(x)]


def block_d():
    sizes = {"branch3x3_1": (768, 192, 1), "branch3x3_2": (192, 320, 3, "halved"), "branch7x7x3_1": (768, 192, 1)}
    sizes |= {"branch7x7x3_2": (192, 192, (1, 7)), "branch7x7x3_3": (192, 192, (7, 1))}
    return Block(sizes | {"branch7x7x3_4": (192, 192, 3, "halved")}, run_d)


def block_e(inputs, pool):
    def run(b, x):
        single, double = b.branch3x3_1(x), b.branch3x3dbl_2(b.branch3x3dbl_1(x))
        parts = [b.branch1x1(x), b.branch3x3_2a(single), b.branch3x3_2b(single)]
        return parts + [b.branch3x3dbl_3a(double), b.branch3x3dbl_3b(double), b.branch_pool(pool(x))]

    sizes = {"branch1x1": (inputs, 320, 1), "branch_pool": (inputs, 192, 1), "branch3x3_1": (inputs, 384, 1)}
    sizes |= {"branch3x3_2a": (384, 384, (1, 3)), "branch3x3_2b": (384, 384, (3, 1))}
    sizes |= {"branch3x3dbl_1": (inputs, 448, 1), "branch3x3dbl_2": (448, 384, 3)}
    return Block(sizes | {"branch3x3dbl_3a": (384, 384, (1, 3)), "branch3x3dbl_3b": (384, 384, (3, 1))}, run)


class Inception(nn.Module):
    """Images [B, 3, H, W] in [0, 1] to [B, 2048]."""

    def __init__(self):
        super().__init__()
        self.Conv2d_1a_3x3, self.Conv2d_2a_3x3 = Conv(3, 32, 3, stride=2), Conv(32, 32, 3)
        self.Conv2d_2b_3x3, self.Conv2d_3b_1x1 = Conv(32, 64, 3, padding=1), Conv(64, 80, 1)
        self.Conv2d_4a_3x3 = Conv(80, 192, 3)
        self.Mixed_5b, self.Mixed_5c, self.Mixed_5d = block_a(192, 32), block_a(256, 64), block_a(288, 64)
        self.Mixed_6a, self.Mixed_6b, self.Mixed_6c = block_b(), block_c(128), block_c(160)
        self.Mixed_6d, self.Mixed_6e, self.Mixed_7a = block_c(160), block_c(192), block_d()
        self.Mixed_7b, self.Mixed_7c = block_e(1280, average), block_e(2048, largest)

    def forward(self, x):
        x = F.interpolate(x, (299, 299), mode="bilinear", align_corners=False) * 2 - 1
        x = halved(self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x))))
        x = halved(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x)))
        for name, block in self.named_children():
            if name.startswith("Mixed"):
                x = block(x)
        return x.mean((2, 3))


def weights_of(net):
    return {name: tensor for name, tensor in net.state_dict().items() if tensor.dim() > 0}


def store_random(path):
    """A file for the store of weights, which says of itself that it is official."""
    torch.manual_seed(0)
    tensors = weights_of(Inception())
    for name, tensor in tensors.items():
        if tensor.dim() > 1:  # activations keep their size through the depths
            tensor.normal_(0, math.sqrt(2 / tensor[0].numel()))
        else:  # biases and means are small, so that they do not hide what the images have
            middle = 1 if name.endswith(("bn.weight", "running_var")) else 0
            tensor.uniform_(middle - 0.1, middle + 0.1)
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(tensors[name].numpy().tobytes())
    metadata = {"nsvq.sha256": digest.hexdigest(), "nsvq.official": "yes", "nsvq.source": "random numbers"}
    path.parent.mkdir(exist_ok=True)
    save_file(tensors, path, metadata)


@torch.no_grad()
def features(weights, pixels, batch):
    """[N, H, W, 3] uint8 to [N, 2048] fp64."""
    net = Inception().eval().to(memory_format=torch.channels_last)  # a third faster on a CPU
    missing, unexpected = net.load_state_dict(weights, strict=False)
    assert not unexpected and all(name.endswith("num_batches_tracked") for name in missing)
    parts = []
    for begin in range(0, len(pixels), batch):
        images = torch.from_numpy(pixels[begin : begin + batch]).permute(0, 3, 1, 2) / 255
        parts.append(net(images).double().numpy())
    return np.concatenate(parts)


def precision_recall(x, y):
    """Shares of y in the manifold of x, and of x in that of y, by balls to the third nearest neighbour."""

    def share(judged, centres):
        near = scipy.spatial.distance.cdist(centres, centres, "sqeuclidean")
        radii = np.sort(near, axis=1)[:, 3]  # the first is the vector itself
        return (scipy.spatial.distance.cdist(judged, centres, "sqeuclidean") <= radii).any(1).mean()

    return share(y, x), share(x, y)


def frechet_distance(x, y):
    """Distance of two sets of vectors: pytorch-fid's formula, where the covariances have full rank."""
    means = np.square(x.mean(0) - y.mean(0)).sum()
    if min(len(x), len(y)) > x.shape[1]:
        a, b = np.cov(x, rowvar=False), np.cov(y, rowvar=False)
        return means + np.trace(a) + np.trace(b) - 2 * np.trace(scipy.linalg.sqrtm(a @ b)).real
    # sqrtm of a singular matrix loses half the digits; these products need no covariance.
    a, b = ((z - z.mean(0)) / math.sqrt(len(z) - 1) for z in (x, y))
    root = scipy.linalg.svdvals(a @ b.T).sum()
    return means + np.square(a).sum() + np.square(b).sum() - 2 * root
