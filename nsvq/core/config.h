#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nsvq {

/// Every setting of a run. Keys, ranges and help are in options.cpp, one row a field.
struct DataConfig {
  std::string train = "builtin:dead-leaves?size=64&count=2048";
  std::string val = "builtin:dead-leaves?size=64&count=256&seed=1";
  int64_t size = 128;
  std::string crop = "random";
  bool flip = false;
  std::string on_error = "skip";
  int64_t threads = 0;
  int64_t prefetch = 4;
};

struct ModelConfig {
  int64_t width = 128;
  std::vector<int64_t> multipliers = {1, 2, 2, 4};
  int64_t blocks = 2;
  int64_t latent_dim = 128;
  std::vector<int64_t> attention;
  bool mid_attention = false;

  /// Pixels per latent along each side.
  int64_t stride() const { return int64_t{1} << (multipliers.size() - 1); }
};

/// Codes as running means of their latents: ema, jukebox, soundstream.
struct RunningMeansConfig {
  double decay = 0.99;
  double smoothing = 1e-5;
};

struct FsqConfig {
  std::vector<int64_t> levels = {8, 8, 8, 5, 5, 5};
};

struct LfqConfig {
  int64_t bits = 16;
  double entropy = 0.1;
  double diversity = 1;
  double temperature = 0.01;
};

/// A frozen codebook of features behind a trained projection: vqgan_lc.
struct FeaturesConfig {
  std::string file;
  int64_t dim = 768;
};

/// The network that makes the codes of fvq.
struct BridgeConfig {
  int64_t patch = 8;
  int64_t width = 256;
  int64_t heads = 4;
  int64_t blocks = 2;
};

struct AffineConfig {
  std::string variant = "learned";
  double rate = 10;
  double momentum = 0.1;
};

struct SqvaeConfig {
  double variance = 21;
  double anneal = 1e-5;
};

struct GumbelConfig {
  double temperature = 0.9;
  double last_temperature = 1e-6;
  int64_t anneal_steps = 1000000;
  double kl = 5e-4;
};

struct IbqConfig {
  double entropy = 0.05;
  double entropy_temperature = 0.01;
  double temperature = 1;
};

struct QuantizerConfig {
  std::string type = "nsvq";
  int64_t codes = 65536;
  std::string init = "gaussian";
  double beta = 0.25;
  double alpha = 0.1;
  double tau = 0.35;
  bool rotation = false;
  std::string operators = "streaming";
  RunningMeansConfig ema;
  FsqConfig fsq;
  LfqConfig lfq;
  FeaturesConfig features;
  BridgeConfig bridge;
  AffineConfig affine;
  SqvaeConfig sqvae;
  GumbelConfig gumbel;
  IbqConfig ibq;
};

struct LossConfig {
  double l1 = 1;
  double l2 = 0;
  double perceptual = 0;
  std::string perceptual_net = "vgg";
  double vq = 1;
};

struct AdversarialConfig {
  double weight = 0;
  bool adaptive = false;
  int64_t start_step = 0;
  std::string generator_loss = "non_saturating";
  std::string discriminator_loss = "hinge";
  double lecam = 0;
  int64_t width = 64;
  int64_t layers = 3;
};

struct OptimizerConfig {
  double lr = 1e-4;
  double beta1 = 0.5;
  double beta2 = 0.9;
  double eps = 1e-8;
  double ema_decay = 0.999;
};

struct ReplacementConfig {
  std::string policy = "auto";
  int64_t exempt_epochs = 5;
  double threshold = 1;
  double sigma = 0.001;
  std::string source = "usage";
  double decay = 0.99;
  std::string anchor = "sampled";
  bool reset_moments = true;
};

struct ScheduleConfig {
  std::vector<std::string> phases = {"stage1", "warmup", "stage2"};
  std::string freeze = "plateau";
  int64_t patience = 10;
  int64_t freeze_epoch = 0;
  int64_t latest_epoch = 0;
  int64_t warmup_epochs = 3;
  int64_t stage2_epochs = 0;
  double ramp_epochs = 2;
};

struct TrainConfig {
  int64_t epochs = 70;
  int64_t steps = 0;
  int64_t batch_size = 32;
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
  DriftConfig drift;
  AlarmConfig alarm;
  CheckpointConfig checkpoint;
};

/// Reads a YAML recipe (empty path: defaults alone), then applies `key=value` overrides. Unknown
/// key, wrong type, value out of range: UserError in one line with file, line, key and the nearest
/// valid name.
Config load_config(const std::string& path, const std::vector<std::string>& overrides = {});

/// The same from a recipe's text, as a checkpoint carries it; `source` is what errors call it.
Config parse_config(const std::string& text, const std::string& source);

/// Brief: without the settings of single quantizers that have their default.
enum class Detail { full, brief };
/// The configuration as a YAML recipe that load_config reads back to the same values.
std::string to_yaml(const Config& config, Detail detail = Detail::full);

/// The settings that make another run and that differ, each as "key (a here, b there)". Budget,
/// logs, paths and the like are not among them.
std::vector<std::string> essential_differences(const Config& here, const Config& there);

/// Every key with type, default, range and meaning, as text for `nsvq config --reference`.
std::string config_reference();

}  // namespace nsvq
