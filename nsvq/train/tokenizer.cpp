#include "nsvq/train/tokenizer.h"

#include "nsvq/train/state.h"

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
  copy_tensors(named_tensors(module), tensors, from);
}

}  // namespace nsvq
