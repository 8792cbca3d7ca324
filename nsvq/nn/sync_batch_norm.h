#pragma once

#include <torch/types.h>

#include <functional>

namespace torch::nn {
class BatchNorm2dImpl;
}

namespace nsvq {

/// Makes a tensor its sum over ranks, in place.
using SumOverRanks = std::function<void(const torch::Tensor&)>;

/// A batch norm in training mode whose mean and variance are those of the images [B, C, H, W] of
/// all ranks, which may bring different numbers of them; its running statistics follow. One
/// collective forward and one backward. A gradient is that of the sum of all ranks' losses for
/// these images, of weight and bias that of this rank's share in it. No second derivative.
torch::Tensor sync_batch_norm(const torch::Tensor& images, torch::nn::BatchNorm2dImpl& norm,
                              const SumOverRanks& sum);

}  // namespace nsvq
