#include "nsvq/train/tokenizer.h"

#include <fmt/ranges.h>

#include "nsvq/core/error.h"

namespace nsvq {

TokenizerImpl::TokenizerImpl(const Config& config)
    : encoder(register_module("encoder", Encoder(config.model))),
      quantizer(
          register_module("quantizer", make_quantizer(config.quantizer, config.model.latent_dim))),
      decoder(register_module("decoder", Decoder(config.model))) {}

torch::Tensor TokenizerImpl::encode(const torch::Tensor& images) {
  return quantizer->encode(encoder->forward(images));
}

torch::Tensor TokenizerImpl::decode(const torch::Tensor& indices) {
  return decoder->forward(quantizer->decode(indices));
}

std::map<std::string, torch::Tensor> named_tensors(const torch::nn::Module& module) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : module.named_buffers()) tensors[item.key()] = item.value();
  return tensors;
}

void load_tensors(torch::nn::Module& module, const std::map<std::string, torch::Tensor>& tensors,
                  const std::string& from) {
  const torch::NoGradGuard no_grad;
  auto targets = named_tensors(module);
  for (const auto& [name, value] : tensors) {
    const auto target = targets.find(name);
    if (target == targets.end()) {
      throw UserError("{}: tensor '{}' has no place in this model; is it of another recipe?", from,
                      name);
    }
    if (target->second.sizes() != value.sizes()) {
      throw UserError("{}: tensor '{}' is [{}], but the recipe asks for [{}]", from, name,
                      fmt::join(value.sizes().vec(), ", "),
                      fmt::join(target->second.sizes().vec(), ", "));
    }
    target->second.copy_(value);
    targets.erase(target);
  }
  if (!targets.empty()) {
    throw UserError("{}: tensor '{}' is missing ({} in all)", from, targets.begin()->first,
                    targets.size());
  }
}

}  // namespace nsvq
