#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/settings/member_settings.h"
#include "nsvq/settings/sources.h"

namespace nsvq {

// Every setting of a tokenizer's run. Keys, ranges and help are rows of an option table, one a
// field: those of a quantizer, loss or replacement policy beside it, of the networks in
// nsvq/nn/options.cpp, all others in nsvq/tokenizer/ (options.cpp is the table).

struct DataConfig {
  Sources train = "builtin:dead-leaves?size=64&count=2048";
  Sources val = "builtin:dead-leaves?size=64&count=256&seed=1";
  int64_t size = 128;
  std::string crop = "random";
  bool flip = false;
  std::string on_error = "skip";
  int64_t max_pixels = 1 << 27;
  int64_t threads = 0;
  int64_t prefetch = 4;
  int64_t shuffle_buffer = 4096;
  int64_t retries = 3;
};

struct ModelConfig {
  int64_t width = 128;
  std::vector<int64_t> multipliers = {1, 2, 2, 4};
  int64_t blocks = 2;
  int64_t latent_dim = 128;
  std::vector<int64_t> attention;
  bool mid_attention = false;
  std::string colors = "rgb";

  /// Pixels per latent along each side.
  int64_t stride() const { return int64_t{1} << (multipliers.size() - 1); }
};

/// What quantizers share. A member's own settings are a struct in its header, reached by
/// `of<FsqConfig>()`.
struct QuantizerConfig : MemberSettings {
  std::string type = "nsvq";
  int64_t codes = 65536;
  std::string init = "gaussian";
  double init_scale = 1;
  double beta = 0.25;
  double alpha = 0.1;
  double tau = 0.35;
  bool rotation = false;
  std::string operators = "streaming";
};

/// Weights of the terms that compare images are the terms' own settings: `of<L1LossConfig>()`.
struct LossConfig : MemberSettings {
  double vq = 1;
};

struct AdversarialConfig {
  double weight = 0;
  bool adaptive = false;
  double most_ratio = 1e4;
  int64_t start_step = 0;
  std::string generator_loss = "non_saturating";
  std::string discriminator_loss = "hinge";
  double lecam = 0;
  int64_t width = 64;
  int64_t layers = 3;
};

/// How a learning rate changes over a run.
struct LrScheduleConfig {
  std::string shape = "constant";
  int64_t warmup_steps = 0;
  int64_t steps = 0;
  double final_share = 0;
};

/// Factors on the learning rate of a part of the model.
struct LrScaleConfig {
  double encoder = 1;
  double decoder = 1;
  double quantizer = 1;
  double discriminator = 1;
};

struct OptimizerConfig {
  double lr = 1e-4;
  double beta1 = 0.5;
  double beta2 = 0.9;
  double eps = 1e-8;
  double weight_decay = 0;
  double clip_norm = 0;
  double ema_decay = 0.999;
  LrScaleConfig scale;
  LrScheduleConfig schedule;
  LrScheduleConfig discriminator_schedule = {.shape = "same"};
};

/// What policies share; a policy's own settings are a struct in its header.
struct ReplacementConfig : MemberSettings {
  std::string policy = "auto";
  int64_t every_steps = 0;
  double threshold = 1;
  double decay = 0.99;
  bool reset_moments = true;
};

struct ScheduleConfig {
  std::vector<std::string> phases = {"stage1", "warmup", "stage2"};
  int64_t epoch_steps = 0;
  std::string freeze = "plateau";
  std::string commitment = "train";
  double smoothing = 0;
  int64_t patience = 10;
  int64_t freeze_epoch = 0;
  int64_t earliest_epoch = 0;
  int64_t latest_epoch = 0;
  int64_t warmup_epochs = 3;
  int64_t stage2_epochs = 0;
  double ramp_epochs = 2;
};

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

/// How the processes of a run work together.
struct DistConfig {
  double timeout = 60;
  std::string gradients = "fp32";
  std::string backend = "auto";
  std::string entropy = "own";
  std::string batch_norm = "own";
};

/// How far the encoder and its assignments move, on a fixed part of the evaluation images.
struct DriftConfig {
  int64_t every_steps = 0;
  int64_t images = 64;
};

struct AlarmConfig {
  int64_t epochs = 3;
  double utilisation = 0.1;
  double norm_growth = 10;
};

struct CheckpointConfig {
  int64_t every_steps = 0;
  int64_t keep = 3;
  std::string keep_best;
  std::string on_error = "stop";
};

struct Config {
  int64_t seed = 0;
  std::string device = "auto";
  int64_t threads = 0;
  DataConfig data;
  ModelConfig model;
  QuantizerConfig quantizer;
  LossConfig loss;
  AdversarialConfig adversarial;
  OptimizerConfig optimizer;
  ReplacementConfig replacement;
  ScheduleConfig schedule;
  TrainConfig train;
  DistConfig dist;
  DriftConfig drift;
  AlarmConfig alarm;
  CheckpointConfig checkpoint;
};

}  // namespace nsvq
