"""Statistics over the ranks of torch.distributed. One process is a group of one."""

import torch
import torch.distributed as dist
from torch import Tensor


def several() -> bool:
    """Whether this process is one of several ranks."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def sum_over_ranks(values: Tensor) -> Tensor:
    """The sum over ranks, written over `values`; torch.compile takes it into the graph."""
    dist.all_reduce(values)
    return values


def of_first_rank(value: Tensor) -> Tensor:
    """Rank 0's `value`, on every rank."""
    return sum_over_ranks(value if dist.get_rank() == 0 else torch.zeros_like(value))


def all_rows(rows: Tensor) -> Tensor:
    """The rows [N, d] of all ranks, one rank's after the other's; N may differ from rank to rank."""
    count = torch.tensor([rows.shape[0]], device=rows.device)
    counts = [torch.empty_like(count) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, count)
    counts = [int(one) for one in counts]
    padded = rows.new_zeros(max(counts), rows.shape[1])
    padded[:rows.shape[0]] = rows
    gathered = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(gathered, padded)
    return torch.cat([one[:n] for one, n in zip(gathered, counts)])


def rank_and_size() -> tuple[int, int]:
    """This rank's number and how many there are."""
    return (dist.get_rank(), dist.get_world_size()) if several() else (0, 1)
