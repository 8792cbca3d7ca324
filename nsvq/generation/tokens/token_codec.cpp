#include "nsvq/generation/tokens/token_codec.h"

#include <filesystem>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/tokenizer/model_file.h"

namespace nsvq {

TokenCodec::TokenCodec(LoadedModel model, c10::Device device) : model_(std::move(model)) {
  if (codes() == 0) {
    throw UserError("{}: a continuous autoencoder, which has no tokens to learn", name());
  }
  reference_ = {std::filesystem::absolute(model_.file).string(), model_sha256(model_.tokenizer)};
  freeze_on(model_, device);
}

torch::Tensor TokenCodec::encode(const torch::Tensor& images) {
  const torch::NoGradGuard no_grad;
  return model_.tokenizer->encode_without_waiting(images);
}

torch::Tensor TokenCodec::decode(const torch::Tensor& tokens) {
  const torch::NoGradGuard no_grad;
  return model_.tokenizer->decode(tokens);
}

}  // namespace nsvq
