"""Adam with the weight average by PyTorch's own fused operators, on the tensors of a model file.

    python bench/adam_torch.py MODEL.safetensors

The figure to compare with is the row "optimizer and average" of `nsvq bench step RECIPE`, of the same model.
"""

import sys

import torch
from safetensors import safe_open


def shapes_of(path):
    with safe_open(path, framework="pt") as file:
        return [file.get_slice(name).get_shape() for name in file.keys()]


def main():
    shapes = shapes_of(sys.argv[1])
    make = lambda: [torch.rand(shape, device="cuda") + 0.1 for shape in shapes]
    parameters, gradients, moments1, moments2, averages = make(), make(), make(), make(), make()
    steps = [torch.ones((), device="cuda") for _ in shapes]
    skip = torch.zeros((), device="cuda")

    def step():
        torch._foreach_add_(steps, 1)
        torch._fused_adam_(parameters, gradients, moments1, moments2, [], steps, lr=1e-4, beta1=0.5, beta2=0.9,
                           weight_decay=0, eps=1e-8, amsgrad=False, maximize=False, found_inf=skip)
        torch._foreach_lerp_(averages, parameters, 0.001)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    times = []
    for _ in range(30):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    count = sum(p.numel() for p in parameters)
    print(f"{len(shapes)} tensors, {count} numbers: {sorted(times)[len(times) // 2]:.3f} ms a step, as a CUDA graph")


if __name__ == "__main__":
    main()
