#include "nsvq/train/tokenizer.h"

#include "nsvq/train/state.h"

namespace nsvq {

TokenizerImpl::TokenizerImpl(const Config& config)
    : encoder(register_module("encoder", Encoder(config.model))),
      quantizer(
          register_module("quantizer", make_quantizer(config.quantizer, config.model.latent_dim))),
      decoder(register_module("decoder", Decoder(config.model))) {}

torch::Tensor TokenizerImpl::encode(const torch::Tensor& images) {
  return quantizer->encode(to_latents(images));
}

torch::Tensor TokenizerImpl::encode_without_waiting(const torch::Tensor& images) {
  return quantizer->encode_without_waiting(to_latents(images));
}

torch::Tensor TokenizerImpl::decode(const torch::Tensor& indices) {
  return to_images(quantizer->decode(indices));
}

torch::Tensor TokenizerImpl::to_latents(const torch::Tensor& images) {
  const Casting casting(precision, images.device());
  return widened(encoder->forward(images));
}

torch::Tensor TokenizerImpl::to_images(const torch::Tensor& latents) {
  const Casting casting(precision, latents.device());
  return widened(decoder->forward(latents));
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
