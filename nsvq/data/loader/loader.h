#pragma once

#include <c10/core/Device.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "nsvq/data/images/transform.h"
#include "nsvq/data/loader/feeder.h"
#include "nsvq/data/sources/source.h"

namespace nsvq {

enum class OnError { skip, stop };

struct LoaderOptions {
  TransformOptions transform;
  int64_t batch_size = 32;
  bool shuffle = true;  ///< a new order each epoch, and full batches only
  uint64_t seed = 0;
  int threads = 2;
  int prefetch = 4;  ///< batches prepared ahead
  OnError on_error = OnError::skip;
  int rank = 0;  ///< selects this process's images: see Sampler
  int world = 1;
  c10::Device device = at::kCPU;  ///< where batches are delivered
  /// Keep pixels as bytes until they are on the device: a quarter of the memory, equal floats.
  /// Always done for a GPU.
  bool bytes = false;
  /// Encoded images held to shuffle a source that can only be read in order.
  int64_t shuffle_buffer = 4096;
};

struct Batch {
  torch::Tensor images;          ///< [B, 3, height, width] fp32 in [-1, 1], on the options' device
  std::vector<int64_t> indices;  ///< position of each image in the source
};

class BatchMaker;

/// Makes batches with native threads. An image depends only on (seed, epoch, position), not on the
/// number of threads or the device. On a GPU the next batch is copied on a side stream while the
/// current one is used; a batch belongs to the stream that is current when `next` returns it.
///
/// A source that can only be read in order (Source::shards): evaluation reads it from beginning to
/// end, training several shards at a time with a shuffle buffer (stream_plan.h).
///
/// Training (`shuffle`): every batch is full, the incomplete last one is dropped, and a broken
/// image is replaced by the next usable one of the epoch's order. Evaluation: images in order, the
/// last batch may be short, a broken image is skipped.
class Loader {
 public:
  Loader(std::shared_ptr<const Source> source, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  int64_t batches_per_epoch() const;
  /// `next` continues with batch number `batch` of `epoch`, counted after the first `used` images
  /// of the epoch's order: those that a run used before its number of processes or its batch size
  /// changed.
  void start(int64_t epoch, int64_t batch = 0, int64_t used = 0);
  /// nullopt at the end of the epoch.
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
  std::optional<Feeder> feeder_;  ///< present if batches are made as bytes
  std::optional<Sent> ahead_;     ///< the next batch, being copied
};

}  // namespace nsvq
