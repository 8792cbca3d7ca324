#include "nsvq/nn/features/feature_net.h"

#include <fmt/ranges.h>

#include "nsvq/core/lookup.h"
#include "nsvq/core/tensor_map.h"
#include "nsvq/nn/features/lpips_nets.h"
#include "nsvq/nn/features/resnet50.h"

namespace nsvq {

torch::Tensor per_channel(const std::array<double, 3>& values, c10::Device device) {
  return at::tensor(at::ArrayRef<double>(values), at::kFloat).view({1, 3, 1, 1}).to(device);
}

const std::vector<FeatureNetKind>& feature_net_kinds() {
  static const std::vector<FeatureNetKind> kinds = {
      {"vgg", "vgg16", {64, 128, 256, 512, 512}, 16, [] { return std::make_shared<Vgg16>(); }},
      {"alex", "alexnet", {64, 192, 384, 256, 256}, 31, [] { return std::make_shared<AlexNet>(); }},
      {"squeeze",
       "squeezenet1_1",
       {64, 128, 256, 384, 384, 512, 512},
       17,
       [] { return std::make_shared<SqueezeNet>(); }},
      {"resnet50",
       "resnet50",
       {256, 512, 1024, 2048},
       32,
       [] { return std::make_shared<ResNet50>(); },
       /*has_lpips=*/false},
  };
  return kinds;
}

std::vector<std::string> lpips_net_names() {
  std::vector<std::string> names;
  for (const auto& kind : feature_net_kinds()) {
    if (kind.has_lpips) names.push_back(kind.name);
  }
  return names;
}

void FeatureNetKind::require_side(const std::string& setting, int64_t side) const {
  if (side >= least_size) return;
  throw UserError("{} is {}, but {} needs images of at least {} pixels a side; set a larger one",
                  setting, side, name, least_size);
}

const FeatureNetKind& feature_net_kind(const std::string& name) {
  return find_named(feature_net_kinds(), "feature network", name);
}

void load_parameters(torch::nn::Module& module, const TensorMap& tensors, const std::string& from) {
  const torch::NoGradGuard no_grad;
  for (auto& item : module.named_parameters()) {
    const auto found = tensors.find(item.key());
    if (found == tensors.end()) throw UserError("{}: tensor '{}' is missing", from, item.key());
    const auto& value = found->second;
    if (value.sizes() != item.value().sizes()) {
      throw UserError("{}: tensor '{}' is [{}], not [{}]", from, item.key(),
                      fmt::join(value.sizes().vec(), ", "),
                      fmt::join(item.value().sizes().vec(), ", "));
    }
    if (!value.is_floating_point()) {
      throw UserError("{}: tensor '{}' is not floating-point", from, item.key());
    }
    item.value().copy_(value);
  }
}

}  // namespace nsvq
