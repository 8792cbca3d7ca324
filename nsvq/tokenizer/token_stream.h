#pragma once

#include <torch/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "nsvq/core/host_copy.h"
#include "nsvq/data/loader.h"
#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

struct TokenBatch {
  torch::Tensor tokens;          ///< [B, h, w] int64, on the CPU
  std::vector<int64_t> indices;  ///< position of each image in the source
};

/// The tokens of a loader's batches, in their order. A GPU has the next batches to work on before
/// the tokens of one are looked at.
class TokenStream {
 public:
  /// Encodes on the device that the options name, where the model is.
  TokenStream(Tokenizer& model, std::shared_ptr<const Source> source, const LoaderOptions& options);

  /// The next batch will be number `batch`.
  void start(int64_t batch);
  /// Empty at the end. Throws if the model gives numbers that are not finite.
  std::optional<TokenBatch> next();

 private:
  struct Encoding {
    std::vector<int64_t> indices;
    HostCopy tokens;
  };

  Tokenizer& model_;
  Loader loader_;
  int64_t ahead_;  ///< batches begun before the tokens of one are looked at
  std::deque<Encoding> encodings_;
};

}  // namespace nsvq
