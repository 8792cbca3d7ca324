"""Modules under torch.compile and torch.export, and what they hold in memory."""

import pytest
import torch
import torch._dynamo.testing

import nsvq

MAKERS = {
    "VectorQuantize": lambda: nsvq.VectorQuantize(8, 30),
    "replacing": lambda: nsvq.VectorQuantize(8, 30, threshold_ema_dead_code=2, heads=2, codebook_dim=4),
    "learnable": lambda: nsvq.VectorQuantize(8, 30, learnable_codebook=True, ema_update=False, orthogonal_reg_weight=1),
    "NSVQ": lambda: nsvq.NSVQ(8, 30),
    "SimVQ": lambda: nsvq.SimVQ(8, 30, alpha=0.1),
    "FSQ": lambda: nsvq.FSQ([5, 4, 3], dim=8),
    "LFQ": lambda: nsvq.LFQ(dim=8, codebook_size=16),
    "IBQ": lambda: nsvq.IBQ(8, 30),
    "ResidualVQ": lambda: nsvq.ResidualVQ(dim=8, codebook_size=30, num_quantizers=2, quantize_dropout=True),
}
FAST = ("VectorQuantize", "NSVQ", "FSQ")
EVERY = [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in MAKERS]


def steps(module, run, count=3):
    """Results of some training steps and an evaluation."""
    results = []
    for step in range(count):
        x = torch.randn(2, 40, 8, generator=torch.Generator().manual_seed(step), requires_grad=True)
        quantized, indices, *loss = run(x)
        (quantized.square().sum() + sum(one.sum() for one in loss)).backward()
        results += [quantized, indices, *loss, x.grad]
    results += [one.grad for one in module.parameters()] + list(module.state_dict().values())
    module.eval()
    return [one.detach().clone() for one in (*results, *run(x.detach()))]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("backend", ("aot_eager", "inductor"))
def test_one_graph(name, backend):
    """torch.compile takes each module whole, in training and in evaluation, and once each. Random draws of inductor are its own."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    plain = MAKERS[name]()
    torch.manual_seed(0)
    compiled = MAKERS[name]()
    counter = torch._dynamo.testing.CompileCounterWithBackend(backend)
    torch.manual_seed(1)
    found = steps(compiled, torch.compile(compiled, backend=counter, fullgraph=True))
    assert counter.frame_count == 2
    if name == "ResidualVQ" or (name == "replacing" and backend == "inductor"):
        return
    torch.manual_seed(1)
    for value, expected in zip(found, steps(plain, plain)):
        torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-5)


def test_kmeans_start_in_the_graph():
    torch._dynamo.reset()
    module, plain = (nsvq.VectorQuantize(4, 6, kmeans_init=True) for _ in range(2))
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    run = torch.compile(module, backend=counter, fullgraph=True)
    x = torch.randn(1, 50, 4, generator=torch.Generator().manual_seed(0))
    for _ in range(3):
        torch.testing.assert_close(run(x)[0], plain(x)[0])
    assert counter.frame_count == 2  # the first step, and all later ones


@pytest.mark.parametrize("name", EVERY)
def test_export(name, tmp_path):
    """An exported module is saved, loaded and run without its class; the number of latents may vary."""
    module = MAKERS[name]().eval()
    batch = torch.export.Dim("batch", max=64)
    program = torch.export.export(module, (torch.randn(2, 40, 8),), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "module.pt2")
    loaded = torch.export.load(tmp_path / "module.pt2").module()
    x = torch.randn(3, 40, 8)
    for value, expected in zip(loaded(x), module(x)):
        torch.testing.assert_close(value, expected)


@pytest.mark.parametrize("name", ("VectorQuantize", "NSVQ", "SimVQ", "IBQ", "LFQ"))
def test_nothing_holds_all_pairs(name):
    """The largest tensor of a step has far fewer than N K numbers."""
    torch.manual_seed(0)
    n, codes = 4096, 8192
    module = nsvq.LFQ(codebook_size=codes) if name == "LFQ" else getattr(nsvq, name)(13, codes)
    largest = 0

    class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            results = function(*args, **(kwargs or {}))
            for one in results if isinstance(results, (tuple, list)) else (results,):
                if isinstance(one, torch.Tensor):
                    largest = max(largest, one.numel())
            return results

    x = torch.randn(1, n, 13, requires_grad=True)
    with Sizes():
        quantized, _, loss = module(x)
        (quantized.sum() + loss).backward()
    assert codes <= largest <= n * codes / 8
