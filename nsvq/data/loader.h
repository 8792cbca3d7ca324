#pragma once

#include <c10/core/Device.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "nsvq/data/feeder.h"
#include "nsvq/data/source.h"
#include "nsvq/data/transform.h"

namespace nsvq {

enum class OnError { skip, stop };

struct LoaderOptions {
  TransformOptions transform;
  int64_t batch_size = 32;
  bool shuffle = true;  ///< a new order each epoch; also fixes the size of every batch
  uint64_t seed = 0;
  int threads = 2;
  int prefetch = 4;  ///< batches made ahead
  OnError on_error = OnError::skip;
  int rank = 0;  ///< this process takes every world-th image of the epoch's order
  int world = 1;
  c10::Device device = at::kCPU;  ///< where batches are delivered
  /// Pixels stay bytes until they are on the device: a quarter of the memory, the same floats. To a
  /// GPU they always travel so.
  bool bytes = false;
};

struct Batch {
  torch::Tensor images;          ///< [B, 3, height, width] fp32 in [-1, 1], on the options' device
  std::vector<int64_t> indices;  ///< position of each image in the source
};

class BatchMaker;

/// Makes batches with native threads. What comes out depends only on (seed, epoch, position), not
/// on the number of threads or the device. On a GPU the next batch travels while the last one given
/// out is worked on; images belong to the stream that is current when they are given out.
///
/// Training (`shuffle`): every batch is full, the incomplete last one is left out, and a broken
/// image is replaced by the next usable one of the epoch's order. Evaluation: images in order, the
/// last batch may be short, a broken image is left out.
class Loader {
 public:
  Loader(std::shared_ptr<const Source> source, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  int64_t batches_per_epoch() const;
  /// The next batch will be number `batch` of `epoch`.
  void start(int64_t epoch, int64_t batch = 0);
  /// Empty at the end of the epoch.
  std::optional<Batch> next();
  /// Distinct images that could not be decoded so far.
  int64_t broken() const;

 private:
  struct Sent {
    Upload images;
    std::vector<int64_t> indices;
  };
  std::optional<Sent> send(std::optional<Batch> batch);

  std::unique_ptr<BatchMaker> maker_;
  std::optional<Feeder> feeder_;  ///< where batches come as bytes
  std::optional<Sent> ahead_;     ///< the next batch, on its way
};

}  // namespace nsvq
