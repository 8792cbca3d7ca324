#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/settings/option.h"

namespace nsvq {

/// Settings train.*: budget, batches, precision, logs and evaluations.
struct TrainConfig {
  int64_t epochs = 70;
  int64_t steps = 0;
  int64_t batch_size = 32;
  int64_t global_batch = 0;
  int64_t accumulate = 1;
  std::string init_from;
  std::string on_nonfinite = "stop";
  int64_t nonfinite_limit = 10;
  bool deterministic = true;
  std::string precision = "auto";
  bool graphs = true;
  bool recompute = false;
  int64_t log_every = 20;
  int64_t eval_every = 1;
  std::vector<std::string> metrics = {"psnr", "psnr_pooled", "ssim", "utilisation", "perplexity"};
  int64_t samples_every = 1;
  int64_t samples = 8;
  int64_t check = 0;
  int64_t check_ranks = 0;
};

std::vector<Option> train_options(TrainConfig& train);

}  // namespace nsvq
