"""Training steps of modules in CUDA graphs: captured by hand, and by torch.compile(mode="reduce-overhead")."""

import pytest
import torch
import torch._dynamo.utils

import nsvq
from nsvq import _library, blocked

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
needs_kernels = pytest.mark.skipif(not _library.HAS_CUDA_KERNELS, reason="the library was built without CUDA kernels")

MAKERS = {
    "VectorQuantize": lambda: nsvq.VectorQuantize(32, 300),
    "cosine": lambda: nsvq.VectorQuantize(32, 300, use_cosine_sim=True, heads=2, codebook_dim=16),
    "learnable": lambda: nsvq.VectorQuantize(32, 300, learnable_codebook=True, ema_update=False, rotation_trick=False),
    "NSVQ": lambda: nsvq.NSVQ(32, 300),
    "SimVQ": lambda: nsvq.SimVQ(32, 300, alpha=0.1),
    "FSQ": lambda: nsvq.FSQ([8, 5, 5, 5], dim=32),
    "LFQ": lambda: nsvq.LFQ(dim=32, codebook_size=256),
    "IBQ": lambda: nsvq.IBQ(32, 300),
    "ResidualVQ": lambda: nsvq.ResidualVQ(dim=32, codebook_size=300, num_quantizers=2),
}
WITHOUT_KERNELS = ("FSQ", "LFQ")  # nothing is searched


def twins(name):
    """Two modules with the same weights."""
    torch.manual_seed(0)
    plain, other = MAKERS[name]().cuda(), MAKERS[name]().cuda()
    copy_state(plain, other)
    return plain, other


def state(module):
    return [*module.parameters(), *module.buffers()]


@torch.no_grad()
def copy_state(source, target):
    for one, other in zip(state(source), state(target), strict=True):
        other.copy_(one)


def batch(seed):
    return torch.randn(4, 256, 32, generator=torch.Generator().manual_seed(seed)).cuda()


def step(run, module, x):
    """Outputs and gradients of a training step."""
    quantized, indices, *loss = run(x)
    total = quantized.square().sum() + sum(one.sum() for one in loss)
    gradients = torch.autograd.grad(total, [x, *module.parameters()], allow_unused=True)
    return [indices, quantized, *loss, *(one for one in gradients if one is not None)]


def warm_up(work, count=3):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(count):
            work()
    torch.cuda.current_stream().wait_stream(stream)


def compare(found, expected, tolerance):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", MAKERS)
def test_captured_training(name):
    """Replays with other latents give the results of eager steps, and leave the same codes, running means and counts."""
    if not _library.HAS_CUDA_KERNELS and name not in WITHOUT_KERNELS:
        pytest.skip("the library was built without CUDA kernels")
    plain, captured = twins(name)
    x = batch(0).requires_grad_()
    warm_up(lambda: step(captured, captured, x))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step(captured, captured, x)
    copy_state(plain, captured)  # what warming up has changed
    for seed in range(1, 5):
        with torch.no_grad():
            x.copy_(batch(seed))
        graph.replay()
        expected = step(plain, plain, batch(seed).requires_grad_())
        assert torch.equal(results[0], expected[0])
        compare(results, expected, 1e-5)
        compare(state(captured), state(plain), 1e-5)


@pytest.mark.parametrize("name", MAKERS)
def test_captured_evaluation(name):
    if not _library.HAS_CUDA_KERNELS and name not in WITHOUT_KERNELS:
        pytest.skip("the library was built without CUDA kernels")
    module, x = MAKERS[name]().cuda().eval(), batch(0)
    with torch.no_grad():
        warm_up(lambda: module(x))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = module(x)
        for seed in range(1, 4):
            x.copy_(batch(seed))
            graph.replay()
            compare(results, module(batch(seed)), 1e-6)


@needs_kernels
@pytest.mark.parametrize("name", ("VectorQuantize", "NSVQ", "SimVQ", "FSQ"))
def test_reduce_overhead(name):
    """torch.compile replays CUDA graphs of the steps, and leaves none of them out."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    plain, compiled = twins(name)
    run = torch.compile(compiled, mode="reduce-overhead", fullgraph=True)
    for seed in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        found = [one.clone() for one in step(run, compiled, batch(seed).requires_grad_())]
        expected = step(plain, plain, batch(seed).requires_grad_())
        assert (found[0] == expected[0]).float().mean() > 0.999  # a projection may round otherwise
        compare(found[1:], expected[1:], 1e-3)
        compare(state(compiled), state(plain), 1e-3)
    assert torch._dynamo.utils.counters["inductor"]["cudagraph_skips"] == 0


@needs_kernels
@pytest.mark.parametrize("name", ("nearest", "ns_loss"))
def test_captured_functions(name):
    codes, x = torch.randn(500, 32, device="cuda", requires_grad=True), batch(0)

    def work(latents):
        loss = nsvq.nearest(latents, codes).distances.sum() if name == "nearest" else nsvq.ns_loss(latents, codes)
        return loss, *torch.autograd.grad(loss, codes)

    warm_up(lambda: work(x))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = work(x)
    for seed in range(1, 4):
        x.copy_(batch(seed))
        graph.replay()
        compare(results, work(batch(seed)), 1e-5)


def test_without_kernels_a_graph_is_refused():
    """nsvq.blocked reads numbers of the device, which a graph cannot."""
    x, codes = batch(0).flatten(0, 1), torch.randn(500, 32, device="cuda")
    with pytest.raises(RuntimeError, match="nsvq: CUDA graphs need a library with CUDA kernels"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            blocked.nearest_codes(x, codes)
    assert torch.equal(nsvq.nearest(x, codes).indices, blocked.nearest_codes(x, codes)[0])
