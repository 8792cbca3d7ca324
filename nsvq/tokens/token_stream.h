#pragma once

#include <torch/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "nsvq/core/device.h"
#include "nsvq/data/loader/loader.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "nsvq/tokens/variants.h"

namespace nsvq {

struct TokenBatch {
  torch::Tensor tokens;          ///< int64 on the CPU, [B, ...] or [B, variants, ...]
  std::vector<int64_t> indices;  ///< position of each image in the source
};

/// Encodes a loader's batches to tokens, in order. On a GPU the next batches are enqueued before
/// the host waits for the tokens of one.
class TokenStream {
 public:
  /// Encodes on options.device, which must be the model's device. Images of the loader are those
  /// that the variants are cut from.
  TokenStream(Tokenizer& model, std::shared_ptr<const Source> source, const LoaderOptions& options,
              Variants variants = {});

  /// `next` continues with batch number `batch` of the source.
  void start(int64_t batch);
  /// nullopt at the end of the source. Throws if the latents are non-finite.
  std::optional<TokenBatch> next();

 private:
  torch::Tensor encode(const torch::Tensor& images);

  struct Encoding {
    std::vector<int64_t> indices;
    HostCopy tokens;
  };

  Tokenizer& model_;
  Variants variants_;
  Loader loader_;
  int64_t ahead_;  ///< batches enqueued before the host waits for the first one's tokens
  std::deque<Encoding> encodings_;
};

}  // namespace nsvq
