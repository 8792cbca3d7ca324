#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/dist/group.h"
#include "nsvq/generation/config.h"
#include "nsvq/generation/tokens/token_codec.h"
#include "nsvq/train/labelled_batches.h"

namespace nsvq {

/// Training data of a generator: tokens, held on the device, or images, which a tokenizer encodes
/// on the way.
struct TrainingTokens {
  std::unique_ptr<LabelledBatches> batches;
  GridShape grid;
};

/// What the settings name. `codec` may be null for tokens of files. Throws UserError.
TrainingTokens open_training_tokens(const GenerationConfig& config, const TokenCodec* codec,
                                    const Group& group, c10::Device device);

/// Data to evaluate on, in order, each image on one of the ranks.
class EvaluationBatches {
 public:
  struct Batch {
    TensorBatch tensors;             ///< as LabelledBatches have them
    std::vector<int64_t> positions;  ///< in the source
  };
  virtual ~EvaluationBatches() = default;
  virtual int64_t images() const = 0;
  /// Goes back to the first image.
  virtual void start() = 0;
  virtual std::optional<Batch> next() = 0;
};

/// generator.val_tokens or, with a tokenizer, the images of data.val; null where there are neither.
/// Classes have the numbers of the training data. Throws UserError.
std::unique_ptr<EvaluationBatches> open_evaluation_tokens(const GenerationConfig& config,
                                                          const TrainingTokens& training,
                                                          const TokenCodec* codec,
                                                          const Group& group, c10::Device device);

}  // namespace nsvq
