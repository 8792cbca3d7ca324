#include "nsvq/losses/lpips.h"

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/tensor_map.h"
#include "nsvq/nn/layers.h"
#include "nsvq/nn/weights.h"
#include "nsvq/ops/images/feature_distance.h"

namespace nsvq {

LpipsHeads::LpipsHeads(const std::vector<int64_t>& channels) {
  for (const int64_t count : channels) {
    const auto name = "lin" + std::to_string(weights.size());
    const auto head = register_module(name, std::make_shared<torch::nn::Module>());
    weights.push_back(head->register_parameter("weight", at::rand({1, count, 1, 1}) / count,
                                               /*requires_grad=*/false));
  }
}

Lpips::Lpips(const std::string& net) : kind_(feature_net_kind(net)) {
  net_ = register_module("net", kind_.make());
  heads_ = register_module("heads", std::make_shared<LpipsHeads>(kind_.channels));
  shift_ = register_buffer("shift", per_channel(kImageShift));
  scale_ = register_buffer("scale", per_channel(kImageScale));
}

void Lpips::load(const TensorMap& net, const TensorMap& heads) {
  load_parameters(*net_, net, "weights " + kind_.weights);
  load_parameters(*heads_, heads, "weights lpips-" + kind_.name);
}

torch::Tensor Lpips::forward(const torch::Tensor& images, const torch::Tensor& references) {
  TORCH_CHECK(images.dim() == 4 && images.size(1) == 3 && images.sizes() == references.sizes(),
              "lpips: needs images and references [B, 3, H, W] of one shape, got ", images.sizes(),
              " and ", references.sizes());
  check_image_size(images.size(2), images.size(3));
  std::vector<torch::Tensor> theirs;
  {
    const at::AutoGradMode graph(at::GradMode::is_enabled() && references.requires_grad());
    theirs = features(references);
  }
  const auto ours = features(images);
  torch::Tensor distances;
  for (size_t i = 0; i < ours.size(); ++i) {
    const auto distance = feature_distance(ours[i], theirs[i], heads_->weights[i].flatten());
    distances = i == 0 ? distance : distances + distance;
  }
  return distances;
}

void Lpips::check_image_size(int64_t height, int64_t width) const {
  if (std::min(height, width) >= kind_.least_size) return;
  throw UserError("lpips-{} needs images of at least {} x {} pixels, got {} x {}", kind_.name,
                  kind_.least_size, kind_.least_size, height, width);
}

std::vector<torch::Tensor> Lpips::features(const torch::Tensor& images) {
  return net_->features((images - shift_) / scale_);
}

std::shared_ptr<Lpips> make_lpips(const std::string& net, c10::Device device) {
  const auto lpips = std::make_shared<Lpips>(net);
  const auto& kind = feature_net_kind(net);
  const auto backbone = load_weights(kind.weights), heads = load_weights("lpips-" + net);
  lpips->load(backbone.tensors, heads.tensors);
  for (const auto& [name, weights] :
       {std::pair{kind.weights, &backbone}, {"lpips-" + net, &heads}}) {
    if (weights->official) continue;
    log("lpips-{}: the stored {} ({}) are not the official values, so distances differ from "
        "LPIPS's",
        net, name, weights->source);
  }
  lpips->to(device);
  use_gpu_layout(*lpips);
  lpips->eval();
  return lpips;
}

}  // namespace nsvq
