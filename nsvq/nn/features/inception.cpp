#include "nsvq/nn/features/inception.h"

namespace nsvq {

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
  TORCH_CHECK(images.dim() == 4 && images.size(1) == 3, "inception: needs [B, 3, H, W], got ",
              images.sizes());
  constexpr std::array<int64_t, 2> size = {kSize, kSize};
  auto x = at::upsample_bilinear2d(images, at::IntArrayRef(size), /*align_corners=*/false) * 2 - 1;
  for (const auto& step : steps_) x = step.run(x);
  return x;
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

}  // namespace nsvq
