#include "nsvq/nn/features/inception_blocks.h"

namespace nsvq {

namespace {

constexpr double kEpsilon = 1e-3;  // of the batch norm

using Kernel = std::array<int64_t, 2>;
constexpr Kernel k1x1 = {1, 1}, k3x3 = {3, 3}, k5x5 = {5, 5};
constexpr Kernel k1x3 = {1, 3}, k3x1 = {3, 1}, k1x7 = {1, 7}, k7x1 = {7, 1};

InceptionConvShape halving(const std::string& name, int64_t outputs) {
  return {name, outputs, k3x3, 2, false};
}

}  // namespace

torch::Tensor pool3x3(const torch::Tensor& x, Pool pool) {
  switch (pool) {
    case Pool::none:
      return x;
    case Pool::average:
    case Pool::padded_average:
      return at::avg_pool2d(x, 3, 1, 1, /*ceil_mode=*/false, pool == Pool::padded_average);
    case Pool::max:
      return at::max_pool2d(x, 3, 1, 1);
    case Pool::halving_max:
      return at::max_pool2d(x, 3, 2);
  }
  TORCH_INTERNAL_ASSERT(false, "a pool without a case");
}

InceptionConv::InceptionConv(int64_t inputs, const InceptionConvShape& shape)
    : layer_(*this, "conv", "bn", {inputs, shape.outputs, shape.kernel, shape.stride, shape.padded},
             kEpsilon) {}

torch::Tensor InceptionConv::forward(const torch::Tensor& x) const {
  return layer_.forward(x).relu_();
}

InceptionBlock::InceptionBlock(int64_t inputs, const std::vector<InceptionBranch>& branches) {
  const auto add = [this](int64_t channels, const InceptionConvShape& shape) {
    return register_module(shape.name, std::make_shared<InceptionConv>(channels, shape));
  };
  for (const auto& described : branches) {
    auto& branch = branches_.emplace_back(Branch{described.pool, {}, {}});
    int64_t channels = inputs;
    for (const auto& shape : described.chain) {
      branch.chain.push_back(add(channels, shape));
      channels = shape.outputs;
    }
    for (const auto& shape : described.fork) {
      branch.fork.push_back(add(channels, shape));
      outputs_ += shape.outputs;
    }
    if (described.fork.empty()) outputs_ += channels;
  }
}

torch::Tensor InceptionBlock::forward(const torch::Tensor& x) const {
  std::vector<torch::Tensor> parts;
  for (const auto& branch : branches_) {
    auto y = pool3x3(x, branch.pool);
    for (const auto& convolution : branch.chain) y = convolution->forward(y);
    for (const auto& convolution : branch.fork) parts.push_back(convolution->forward(y));
    if (branch.fork.empty()) parts.push_back(y);
  }
  return at::cat(parts, 1);
}

std::vector<InceptionBranch> inception_a(int64_t pool_outputs, Pool pool) {
  return {
      {Pool::none, {{"branch1x1", 64, k1x1}}, {}},
      {Pool::none, {{"branch5x5_1", 48, k1x1}, {"branch5x5_2", 64, k5x5}}, {}},
      {Pool::none,
       {{"branch3x3dbl_1", 64, k1x1}, {"branch3x3dbl_2", 96, k3x3}, {"branch3x3dbl_3", 96, k3x3}},
       {}},
      {pool, {{"branch_pool", pool_outputs, k1x1}}, {}},
  };
}

std::vector<InceptionBranch> inception_b() {
  return {
      {Pool::none, {halving("branch3x3", 384)}, {}},
      {Pool::none,
       {{"branch3x3dbl_1", 64, k1x1}, {"branch3x3dbl_2", 96, k3x3}, halving("branch3x3dbl_3", 96)},
       {}},
      {Pool::halving_max, {}, {}},
  };
}

std::vector<InceptionBranch> inception_c(int64_t width, Pool pool) {
  return {
      {Pool::none, {{"branch1x1", 192, k1x1}}, {}},
      {Pool::none,
       {{"branch7x7_1", width, k1x1}, {"branch7x7_2", width, k1x7}, {"branch7x7_3", 192, k7x1}},
       {}},
      {Pool::none,
       {{"branch7x7dbl_1", width, k1x1},
        {"branch7x7dbl_2", width, k7x1},
        {"branch7x7dbl_3", width, k1x7},
        {"branch7x7dbl_4", width, k7x1},
        {"branch7x7dbl_5", 192, k1x7}},
       {}},
      {pool, {{"branch_pool", 192, k1x1}}, {}},
  };
}

std::vector<InceptionBranch> inception_d() {
  return {
      {Pool::none, {{"branch3x3_1", 192, k1x1}, halving("branch3x3_2", 320)}, {}},
      {Pool::none,
       {{"branch7x7x3_1", 192, k1x1},
        {"branch7x7x3_2", 192, k1x7},
        {"branch7x7x3_3", 192, k7x1},
        halving("branch7x7x3_4", 192)},
       {}},
      {Pool::halving_max, {}, {}},
  };
}

std::vector<InceptionBranch> inception_e(Pool pool) {
  return {
      {Pool::none, {{"branch1x1", 320, k1x1}}, {}},
      {Pool::none,
       {{"branch3x3_1", 384, k1x1}},
       {{"branch3x3_2a", 384, k1x3}, {"branch3x3_2b", 384, k3x1}}},
      {Pool::none,
       {{"branch3x3dbl_1", 448, k1x1}, {"branch3x3dbl_2", 384, k3x3}},
       {{"branch3x3dbl_3a", 384, k1x3}, {"branch3x3dbl_3b", 384, k3x1}}},
      {pool, {{"branch_pool", 192, k1x1}}, {}},
  };
}

}  // namespace nsvq
