#include "nsvq/generation/sampling/token_sequence.h"

#include "nsvq/generation/sampling/token_sampling.h"

namespace nsvq {

void TokenSequence::prepare(const SequenceNetwork& network, const TokenRequest& request,
                            const SamplingConfig& sampling) {
  const auto& seeds = request.seeds;
  const bool kept = graph_ && request.graphs && tokens_.size(0) == seeds.size(0) &&
                    tokens_.device() == seeds.device() && sampling_ == sampling;
  if (kept) return;
  graph_.emplace(seeds.device(), request.graphs && seeds.is_cuda());
  sampling_ = sampling;
  cache_.emplace(network.prefix + network.tokens - 1);
  tokens_ = at::zeros({seeds.size(0), network.tokens}, seeds.options());
  number_ = at::zeros({1}, seeds.options());
  weights_.reset();
  if (sampling.guidance != 1) {
    weights_ = guidance_weights(sampling, network.tokens, seeds.device());
  }
}

/// The token that `number_` counts.
void TokenSequence::draw(const SequenceNetwork& network, const torch::Tensor& hidden,
                         const torch::Tensor& seeds) {
  const auto weight = weights_.defined() ? weights_.index_select(0, number_) : torch::Tensor();
  const auto drawn =
      network.head.draw(hidden, {numbered_seeds(seeds, number_), weight, {}, sampling_});
  tokens_.index_copy_(1, number_, drawn.tokens.unsqueeze(1));
}

torch::Tensor TokenSequence::sample(const SequenceNetwork& network, const TokenRequest& request,
                                    const SamplingConfig& sampling) {
  const torch::NoGradGuard no_grad;
  prepare(network, request, sampling);
  // A graph holds the casts of weights itself: those of autocast's cache do not live as long.
  std::optional<AutocastCacheGuard> casts;
  if (!request.graphs) casts.emplace();
  const StepGraph::Batch inputs = {sampled_labels(request, network.classes, weights_.defined()),
                                   request.seeds};
  number_.zero_();
  request.before_step();
  {
    const AutocastGuard autocast(network.precision, request.seeds.device());
    draw(network, network.begin(inputs[0], *cache_), inputs[1]);
  }
  const auto work = [&](const StepGraph::Batch& given) {
    const AutocastGuard autocast(network.precision, number_.device());
    const auto last = tokens_.index_select(1, number_).squeeze(1);
    const auto hidden =
        network.next(weights_.defined() ? at::cat({last, last}) : last, number_, given[0], *cache_);
    number_.add_(1);
    draw(network, hidden, given[1]);
  };
  for (int64_t i = 1; i < network.tokens; ++i) {
    request.before_step();
    if (!graph_->replay("token", inputs, work)) work(inputs);
  }
  return tokens_.clone();
}

}  // namespace nsvq
