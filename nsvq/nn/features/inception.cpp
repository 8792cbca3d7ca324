#include "nsvq/nn/features/inception.h"

#include <algorithm>
#include <cmath>

namespace nsvq {

namespace {

constexpr double kInceptionEpsilon = 1e-3;  // of the batch norm
constexpr auto kSpatialStep = "Mixed_6d";

using Kernel = std::array<int64_t, 2>;
constexpr Kernel k1x1 = {1, 1}, k3x3 = {3, 3}, k5x5 = {5, 5};
constexpr Kernel k1x3 = {1, 3}, k3x1 = {3, 1}, k1x7 = {1, 7}, k7x1 = {7, 1};

InceptionConvShape halving(const std::string& name, int64_t outputs) {
  return {name, outputs, k3x3, 2, false};
}

/// A line of `from` pixels as one of kSize, along dimension `dim`: output i lies at i * from /
/// kSize between two pixels, in fp32 as TensorFlow computes it.
torch::Tensor resized_line(const torch::Tensor& x, int64_t dim) {
  const int64_t from = x.size(dim);
  const float scale = static_cast<float>(from) / static_cast<float>(Inception::kSize);
  std::vector<int64_t> lower, upper;
  std::vector<float> share;
  for (int64_t i = 0; i < Inception::kSize; ++i) {
    const float at = static_cast<float>(i) * scale;
    lower.push_back(static_cast<int64_t>(at));
    upper.push_back(std::min(lower.back() + 1, from - 1));
    share.push_back(at - static_cast<float>(lower.back()));
  }
  const auto pick = [&](const std::vector<int64_t>& pixels) {
    return x.index_select(dim, at::tensor(at::ArrayRef<int64_t>(pixels), at::kLong).to(x.device()));
  };
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[static_cast<size_t>(dim)] = Inception::kSize;
  const auto weight =
      at::tensor(at::ArrayRef<float>(share), at::kFloat).view(shape).to(x.options());
  const auto below = pick(lower);
  return below + (pick(upper) - below) * weight;
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
             kInceptionEpsilon) {}

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

Inception::Inception(Variant variant) {
  const bool fid = variant == Variant::fid;
  const auto average = fid ? Pool::average : Pool::padded_average;
  const auto last = fid ? Pool::max : Pool::padded_average;

  add_conv(3, {"Conv2d_1a_3x3", 32, {3, 3}, 2, false});
  add_conv(32, {"Conv2d_2a_3x3", 32, {3, 3}, 1, false});
  add_conv(32, {"Conv2d_2b_3x3", 64, {3, 3}});
  add_pool("maxpool1");
  add_conv(64, {"Conv2d_3b_1x1", 80, {1, 1}});
  add_conv(80, {"Conv2d_4a_3x3", 192, {3, 3}, 1, false});
  add_pool("maxpool2");

  const std::vector<std::pair<std::string, std::vector<InceptionBranch>>> blocks = {
      {"Mixed_5b", inception_a(32, average)},
      {"Mixed_5c", inception_a(64, average)},
      {"Mixed_5d", inception_a(64, average)},
      {"Mixed_6a", inception_b()},
      {"Mixed_6b", inception_c(128, average)},
      {"Mixed_6c", inception_c(160, average)},
      {"Mixed_6d", inception_c(160, average)},
      {"Mixed_6e", inception_c(192, average)},
      {"Mixed_7a", inception_d()},
      {"Mixed_7b", inception_e(average)},
      {"Mixed_7c", inception_e(last)},
  };
  int64_t channels = 192;
  for (const auto& [name, branches] : blocks) channels = add_block(name, channels, branches);
  TORCH_INTERNAL_ASSERT(channels == kFeatures);
  steps_.push_back({"avgpool", [](const torch::Tensor& x) { return x.mean({2, 3}); }});
}

torch::Tensor Inception::forward(const torch::Tensor& images) const {
  return outputs(pytorch_input(images)).pool;
}

torch::Tensor Inception::pytorch_input(const torch::Tensor& images) {
  TORCH_CHECK(images.dim() == 4 && images.size(1) == 3, "inception: needs [B, 3, H, W], got ",
              images.sizes());
  constexpr std::array<int64_t, 2> size = {kSize, kSize};
  return at::upsample_bilinear2d(images, at::IntArrayRef(size), /*align_corners=*/false) * 2 - 1;
}

torch::Tensor Inception::tensorflow_input(const torch::Tensor& pixels) {
  TORCH_CHECK(pixels.dim() == 4 && pixels.size(1) == 3, "inception: needs [B, 3, H, W], got ",
              pixels.sizes());
  return (resized_line(resized_line(pixels, 3), 2) - 128) / 128;
}

Inception::Outputs Inception::outputs(const torch::Tensor& input) const {
  Outputs outputs;
  auto x = input;
  for (const auto& step : steps_) {
    x = step.run(x);
    if (step.name != kSpatialStep) continue;
    const auto first = x.narrow(1, 0, kSpatialChannels);  // its first branch is branch1x1
    outputs.spatial = first.permute({0, 2, 3, 1}).flatten(1);
  }
  outputs.pool = x;
  return outputs;
}

void Inception::fold() {
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* conv = dynamic_cast<InceptionConv*>(module.get())) conv->fold();
  }
}

void Inception::add_conv(int64_t inputs, const InceptionConvShape& shape) {
  auto* conv = register_module(shape.name, std::make_shared<InceptionConv>(inputs, shape)).get();
  steps_.push_back({shape.name, [conv](const torch::Tensor& x) { return conv->forward(x); }});
}

void Inception::add_pool(const std::string& name) {
  steps_.push_back({name, [](const torch::Tensor& x) { return pool3x3(x, Pool::halving_max); }});
}

int64_t Inception::add_block(const std::string& name, int64_t inputs,
                             const std::vector<InceptionBranch>& branches) {
  auto* block = register_module(name, std::make_shared<InceptionBlock>(inputs, branches)).get();
  steps_.push_back({name, [block](const torch::Tensor& x) { return block->forward(x); }});
  return block->outputs();
}

InceptionHead::InceptionHead() {
  const auto fc = register_module("fc", std::make_shared<torch::nn::Module>());
  const double bound = 1 / std::sqrt(static_cast<double>(Inception::kFeatures));
  const auto add = [&](const char* name, const torch::Tensor& value) {
    return fc->register_parameter(name, value, /*requires_grad=*/false);
  };
  weight_ = add("weight", at::empty({kClasses, Inception::kFeatures}).uniform_(-bound, bound));
  add("bias", at::zeros({kClasses}));
}

torch::Tensor InceptionHead::log_probabilities(const torch::Tensor& pool) const {
  return at::linear(pool.to(at::kDouble), weight_.to(at::kDouble)).log_softmax(1);
}

}  // namespace nsvq
