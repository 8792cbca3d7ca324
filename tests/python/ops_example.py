import sys, torch
torch.ops.load_library(sys.argv[1])  # build/release/libnsvq_ops.so

class Quantizer(torch.nn.Module):
    def __init__(self, codes, dimension):
        super().__init__()
        self.codebook = torch.nn.Parameter(torch.randn(codes, dimension) / dimension**0.5)

    def forward(self, z):  # [N, d]; instead of torch.cdist(z, self.codebook).argmin(1)
        indices, distances, ns = torch.ops.nsvq.ns_quantize(z, self.codebook, 0.35)
        return z + (self.codebook[indices] - z).detach(), distances.mean() / z.shape[1] + ns

torch.manual_seed(0)
model = torch.nn.ModuleList([torch.nn.Linear(16, 8), Quantizer(4096, 8), torch.nn.Linear(8, 16)])
optimizer, x, losses = torch.optim.Adam(model.parameters(), 3e-3), torch.randn(1024, 16), []
for step in range(100):
    codes, loss = model[1](model[0](x))
    loss = loss + (model[2](codes) - x).square().mean()
    optimizer.zero_grad(), loss.backward(), optimizer.step()
    losses.append(loss.item())
assert losses[-1] < 0.7 * losses[0], losses[::20]
