"""Statistics over ranks: two processes with half of the batch each, against one with all of it."""

import pathlib
import socket

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import nsvq

STEPS = 3


class Model(torch.nn.Module):
    """A layer before the quantizer, so that DDP has gradients to average."""

    def __init__(self, replaces):
        super().__init__()
        self.layer = torch.nn.Linear(6, 4)
        self.quantizer = nsvq.VectorQuantize(4, 24, decay=0.7, threshold_ema_dead_code=1 if replaces else 0)

    def forward(self, x):
        quantized, indices, loss = self.quantizer(self.layer(x))
        return quantized, indices, loss


def batch(step):
    return torch.randn(2, 32, 6, generator=torch.Generator().manual_seed(step))


def train(model, run, rank=None):
    """Trains on a rank's half of each batch, or on all of it; indices of the last step and all weights."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(STEPS):
        x = batch(step) if rank is None else batch(step)[rank:rank + 1]
        optimizer.zero_grad()
        quantized, indices, loss = run(x)
        (quantized.square().mean() + loss).backward()
        optimizer.step()
    return {"indices": indices, **{key: value.clone() for key, value in model.state_dict().items()}}


def new_model(replaces):
    torch.manual_seed(0)
    return Model(replaces)


def work(rank, folder, port, compiled, replaces):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    model = new_model(replaces)
    run = torch.nn.parallel.DistributedDataParallel(model)
    if compiled:
        run = torch.compile(run, backend="aot_eager" if compiled == "aot_eager" else "inductor")
    torch.save(train(model, run, rank), pathlib.Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


def two_ranks(folder, compiled, replaces):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    mp.spawn(work, (str(folder), port, compiled, replaces), nprocs=2)
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("compiled", (None, "aot_eager", "inductor"))
def test_two_ranks_are_one_process(tmp_path, compiled):
    first, second = two_ranks(tmp_path, compiled, replaces=False)
    model = new_model(False)
    whole = train(model, model)
    assert torch.equal(torch.cat([first.pop("indices"), second.pop("indices")]), whole.pop("indices"))
    for key, value in whole.items():
        assert torch.equal(first[key], second[key]), key
        torch.testing.assert_close(first[key], value, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", (None, "aot_eager"))
def test_ranks_replace_alike(tmp_path, compiled):
    """Unused codes become latents of both ranks, the same on both."""
    first, second = two_ranks(tmp_path, compiled, replaces=True)
    for key in first:
        if key != "indices":
            assert torch.equal(first[key], second[key]), key
    codes = first["quantizer._codebook.embed"][0]
    plain = new_model(False)
    assert not torch.equal(codes, plain.quantizer.codebook)
    assert (first["quantizer._codebook.cluster_size"] >= 1).all()


def kmeans_work(rank, folder, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    module = nsvq.VectorQuantize(6, 12, kmeans_init=True)
    module(batch(0)[0, :20].unsqueeze(0) if rank == 0 else batch(0)[1:])  # unequal parts
    nsvq_module = nsvq.NSVQ(6, 40)
    torch.manual_seed(3)
    nsvq_module.codebook = torch.randn(40, 6)
    torch.manual_seed(rank)
    nsvq_module(batch(1)[rank:rank + 1])
    replaced = nsvq_module.replace_unused()
    torch.save({"codes": module.codebook, "copies": nsvq_module.codebook.detach(), "replaced": replaced},
               pathlib.Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
def test_start_and_replacement_over_ranks(tmp_path):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    mp.spawn(kmeans_work, (str(tmp_path), port), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    assert torch.equal(first["codes"], second["codes"]) and torch.equal(first["copies"], second["copies"])
    alone = nsvq.VectorQuantize(6, 12, kmeans_init=True)
    alone(torch.cat([batch(0)[0, :20], batch(0)[1]]).unsqueeze(0))
    torch.testing.assert_close(first["codes"], alone.codebook)
    assert 0 < first["replaced"] == second["replaced"] < 40
