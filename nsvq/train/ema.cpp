#include "nsvq/train/ema.h"

#include "nsvq/train/setup.h"

namespace nsvq {

Ema::Ema(const Config& config, Tokenizer model) : model_(std::move(model)), average_(config) {
  place(average_, config, model_->parameters().front().device());
  copy_all();
}

void Ema::copy_buffers() {
  const torch::NoGradGuard no_grad;
  const auto buffers = model_->buffers();
  const auto averages = average_->buffers();
  for (size_t i = 0; i < buffers.size(); ++i) averages[i].copy_(buffers[i]);
}

void Ema::copy_codes(const torch::Tensor& rows) {
  const torch::NoGradGuard no_grad;
  auto average = average_->quantizer->codebook();
  average.copy_(at::where(rows.unsqueeze(1), model_->quantizer->codebook(), average));
}

void Ema::copy_all() { load_tensors(*average_, named_tensors(*model_), "the model"); }

}  // namespace nsvq
