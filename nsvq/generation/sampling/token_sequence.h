#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "nsvq/generation/generator.h"
#include "nsvq/generation/token_head.h"
#include "nsvq/nn/transformer.h"
#include "nsvq/train/steps/cuda_graph.h"

namespace nsvq {

/// A causal network as it is sampled. What it returns are hidden states [rows, width] from which
/// the next token is drawn; labels are [rows] int64.
struct SequenceNetwork {
  /// At the end of what stands before all tokens.
  std::function<torch::Tensor(const torch::Tensor& labels, KvCache& cache)> begin;
  /// After the tokens [rows] whose number in the sequence is `number` [1] int64.
  std::function<torch::Tensor(const torch::Tensor& tokens, const torch::Tensor& number,
                              const torch::Tensor& labels, KvCache& cache)>
      next;
  TokenHead& head;
  int64_t prefix;  ///< places before the first token
  int64_t tokens;  ///< of a sequence
  int64_t classes;
  Precision precision;
};

/// Samples sequences token by token. What a CUDA graph of a token reads and writes is kept, so that
/// the next batch of equal shape and settings replays it.
class TokenSequence {
 public:
  /// [B, tokens] int64.
  torch::Tensor sample(const SequenceNetwork& network, const TokenRequest& request,
                       const SamplingConfig& sampling);

 private:
  void prepare(const SequenceNetwork& network, const TokenRequest& request,
               const SamplingConfig& sampling);
  void draw(const SequenceNetwork& network, const torch::Tensor& hidden,
            const torch::Tensor& seeds);

  SamplingConfig sampling_;
  std::optional<KvCache> cache_;
  torch::Tensor tokens_;   ///< [B, tokens]
  torch::Tensor number_;   ///< [1] int64, of the last token that was drawn
  torch::Tensor weights_;  ///< [tokens] of guidance; undefined without
  std::optional<StepGraph> graph_;
};

}  // namespace nsvq
