#include "nsvq/tokens/token_stream.h"

#include <utility>

#include "nsvq/quantizers/search.h"

namespace nsvq {

TokenStream::TokenStream(Tokenizer& model, std::shared_ptr<const Source> source,
                         const LoaderOptions& options)
    : model_(model), loader_(std::move(source), options), ahead_(options.device.is_cpu() ? 0 : 2) {}

void TokenStream::start(int64_t batch) {
  encodings_.clear();
  loader_.start(0, batch);
}

std::optional<TokenBatch> TokenStream::next() {
  const torch::NoGradGuard no_grad;
  while (std::ssize(encodings_) <= ahead_) {
    auto batch = loader_.next();
    if (!batch) break;
    encodings_.push_back(
        {std::move(batch->indices), HostCopy(model_->encode_without_waiting(batch->images))});
  }
  if (encodings_.empty()) return std::nullopt;
  Encoding first = std::move(encodings_.front());
  encodings_.pop_front();
  TokenBatch batch{first.tokens.get(), std::move(first.indices)};
  throw_if_marked(batch.tokens);
  return batch;
}

}  // namespace nsvq
