#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "nsvq/generation/generator.h"
#include "nsvq/generation/token_head.h"
#include "nsvq/train/steps/cuda_graph.h"

namespace nsvq {

/// Cells of a grid, row by row, in the order in which a Halton sequence of bases 2 (rows) and 3
/// (columns) first meets them.
std::vector<int64_t> halton_order(int64_t height, int64_t width);

/// Orders [B, positions] int64: the Halton order, which each image begins at a place of its own.
torch::Tensor halton_orders(const GridShape& grid, const torch::Tensor& seeds);

/// Tokens that are found after each of `steps` steps: the share 1 - arccos((i + 1) / steps) /
/// (pi/2) after step i, and at least i + 1.
std::vector<int64_t> arccos_counts(int64_t positions, int64_t steps);

/// A network of masked tokens as it is sampled.
struct MaskedNetwork {
  /// Hidden states [rows, n, width] at positions `places` [rows, n] of tokens [rows, positions], of
  /// which those to be found are `mask`; labels [rows]. All positions where places are undefined.
  std::function<torch::Tensor(const torch::Tensor& tokens, const torch::Tensor& labels,
                              const torch::Tensor& places)>
      hidden;
  TokenHead& head;
  GridShape grid;
  int64_t mask;
  Precision precision;
};

/// Finds masked tokens in several steps, many in each. What a CUDA graph of a step reads and writes
/// is kept, so that the next batch of equal shape and settings replays it.
class MaskedSampler {
 public:
  /// [B, positions] int64.
  torch::Tensor sample(const MaskedNetwork& network, const TokenRequest& request,
                       const SamplingConfig& sampling, int64_t steps);

 private:
  void prepare(const MaskedNetwork& network, const TokenRequest& request,
               const SamplingConfig& sampling, int64_t steps);
  /// A table's value at the step in progress, [1].
  torch::Tensor now(const torch::Tensor& table) const { return table.index_select(0, step_); }
  TokenDraw draw_by(const torch::Tensor& seeds) const;
  void halton_step(const MaskedNetwork& network, const StepGraph::Batch& given);
  void redrawing_step(const MaskedNetwork& network, const StepGraph::Batch& given);
  void confidence_step(const MaskedNetwork& network, const StepGraph::Batch& given);

  SamplingConfig sampling_;
  int64_t steps_ = 0, window_ = 0;  ///< window: most tokens of a step
  torch::Tensor tokens_;            ///< [B, positions]
  torch::Tensor step_;              ///< [1] int64
  torch::Tensor weights_;           ///< [steps] of guidance; undefined without
  torch::Tensor factors_;           ///< [steps] on logits; undefined where all are 1
  torch::Tensor counts_;            ///< [steps + 1] int64: halton, tokens found before each step
  torch::Tensor masked_, heat_;     ///< [steps]: confidence, share masked after it, and its noise
  std::optional<StepGraph> graph_;
};

}  // namespace nsvq
