#include "nsvq/tokens/token_stream.h"

#include <utility>

#include "nsvq/quantizers/search.h"

namespace nsvq {

TokenStream::TokenStream(Tokenizer& model, std::shared_ptr<const Source> source,
                         const LoaderOptions& options, Variants variants)
    : model_(model),
      variants_(std::move(variants)),
      loader_(std::move(source), options),
      ahead_(options.device.is_cpu() ? 0 : 2) {}

void TokenStream::start(int64_t batch) {
  encodings_.clear();
  loader_.start(0, batch);
}

torch::Tensor TokenStream::encode(const torch::Tensor& images) {
  if (variants_.all.empty()) return model_->encode_without_waiting(images);
  std::vector<torch::Tensor> tokens;
  for (const auto& variant : variants_.all) {
    tokens.push_back(model_->encode_without_waiting(variants_.cut(images, variant)));
  }
  return at::stack(tokens, 1);
}

std::optional<TokenBatch> TokenStream::next() {
  const torch::NoGradGuard no_grad;
  while (std::ssize(encodings_) <= ahead_) {
    auto batch = loader_.next();
    if (!batch) break;
    encodings_.push_back({std::move(batch->indices), HostCopy(encode(batch->images))});
  }
  if (encodings_.empty()) return std::nullopt;
  Encoding first = std::move(encodings_.front());
  encodings_.pop_front();
  TokenBatch batch{first.tokens.get(), std::move(first.indices)};
  throw_if_marked(batch.tokens);
  return batch;
}

}  // namespace nsvq
