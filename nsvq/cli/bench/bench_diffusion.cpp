#include "nsvq/cli/bench/bench_diffusion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "nsvq/cli/bench/bench_timer.h"
#include "nsvq/cli/bench/flop_counter.h"
#include "nsvq/cli/bench/kernel_profile.h"
#include "nsvq/cli/output/json_output.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/diffusion/diffusion_trainer.h"
#include "nsvq/diffusion/latent_sampler.h"
#include "nsvq/nn/layers.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "nsvq/train/vq/trainer.h"

namespace nsvq {

namespace {

using DiffusionJson = nlohmann::ordered_json;

struct BenchDiffusionArguments {
  std::string recipe, json;
  std::vector<std::string> overrides;
  int64_t channels = 128, stride = 8;
  int64_t samples = 256;
  StepBenchArguments bench;
};

/// A tokenizer that is next to nothing: no image is encoded or decoded.
LoadedModel stand_in_tokenizer(const BenchDiffusionArguments& arguments, c10::Device device) {
  Config config;
  config.model.width = 8;
  config.model.blocks = 1;
  config.model.latent_dim = arguments.channels;
  config.model.multipliers = {1};
  for (int64_t stride = 1; stride < arguments.stride; stride *= 2) {
    config.model.multipliers.push_back(1);
  }
  config.quantizer.type = "none";
  return {config, make_tokenizer(config, device), {}};
}

/// The same random latents in every step.
class RandomLatents : public DiffusionBatches {
 public:
  RandomLatents(std::vector<int64_t> shape, const DiffusionConfig& config, c10::Device device)
      : count_(config.run.train.batch_size) {
    torch::manual_seed(0);
    shape.insert(shape.begin(), count_);
    batch_ = {at::randn(shape).to(at::kBFloat16).to(device),
              at::arange(count_, at::kLong).to(device)};
  }
  const TensorBatch& batch() const { return batch_; }

  std::string name_of(int64_t place) const override { return std::to_string(place); }
  int64_t batches_per_epoch() const override { return 1; }
  int64_t samples() const override { return count_; }
  int64_t step_samples() const override { return count_; }
  void start(int64_t /*epoch*/, int64_t /*batch*/, int64_t /*used*/) override {}
  std::optional<TensorBatch> next() override { return batch_; }

 private:
  int64_t count_;
  TensorBatch batch_;
};

DiffusionJson bench_training(const DiffusionConfig& config,
                             const BenchDiffusionArguments& arguments, c10::Device device) {
  LatentSpace latents(stand_in_tokenizer(arguments, device), config.latents, device);
  RandomLatents batches(latents.shape(config.run.data.size, config.unet.stride()), config, device);
  const auto group = make_single_group();
  DiffusionTask task(config, latents, batches, group, device);
  Loop loop(task, batches, diffusion_loop_options(config, device), group, device);
  const auto step = [&] { loop.step_for_benchmark(batches.batch(), {}); };
  const double flops = convolution_flops(step);
  for (int i = 0; i < 4; ++i) step();  // until the CUDA graph is captured
  // Allocated by the eager steps: of a graph's pool statistics know what is reserved alone.
  const double memory = peak_memory(device);
  const auto reserved = peak_reserved_memory(device);
  const auto taken = time_work(step, device, arguments.bench.rounds);
  if (!taken) throw RunError("out of memory: the step does not fit into the device's memory");
  const double rate = 1e3 * static_cast<double>(batches.samples()) / taken->milliseconds;
  const double reached = flops / taken->milliseconds / 1e9;
  fmt::print("training, batch {}: {:.2f} ms a step, {:.1f} images/s, {:.2f} GiB at most{}\n",
             batches.samples(), taken->milliseconds, rate, memory,
             reserved ? fmt::format(", {:.2f} GiB reserved", *reserved) : "");
  fmt::print("convolutions: {:.3g} GFLOP an image, so {:.3g} TFLOP/s{}\n",
             flops / 1e9 / static_cast<double>(batches.samples()), reached,
             share_of_peak(reached, arguments.bench.peak));
  DiffusionJson json = {
      {"batch_size", batches.samples()}, {"milliseconds", taken->milliseconds},
      {"images_per_second", rate},       {"peak_gib", memory},
      {"convolution_flop", flops},       {"graph", loop.graphs_disabled_reason().empty()}};
  if (reserved) json["peak_reserved_gib"] = *reserved;
  if (arguments.bench.kernels > 0)
    json["profile"] = show_kernels(step, device, arguments.bench.kernels);
  return json;
}

DiffusionJson bench_sampling(const DiffusionConfig& config,
                             const BenchDiffusionArguments& arguments, c10::Device device) {
  const AutocastCacheGuard cached_casts;
  DiffusionModel model(config, arguments.channels);
  move_to_device(model, config, device);
  const int64_t side = config.run.data.size / arguments.stride;
  LatentSampler sampler(model, config, {arguments.channels, side, side}, device, /*graphs=*/true);
  SampleRequest request;
  for (int64_t i = 0; i < arguments.samples; ++i) request.indices.push_back(i);
  request.labels = labels_for(config, /*wanted=*/-1, request.indices);
  const auto work = [&] { sampler.sample(request); };
  const double milliseconds = mean_milliseconds(work, device, arguments.bench.rounds > 2 ? 3 : 1);
  const double rate = 1e3 * static_cast<double>(arguments.samples) / milliseconds;
  fmt::print("sampling {} latents, {} of {} steps: {:.3f} s, {:.1f} images/s\n", arguments.samples,
             config.sample.sampler, config.sample.steps, milliseconds / 1e3, rate);
  DiffusionJson json = {{"images", arguments.samples},
                        {"sampler", config.sample.sampler},
                        {"steps", config.sample.steps},
                        {"seconds", milliseconds / 1e3},
                        {"images_per_second", rate}};
  if (arguments.bench.kernels > 0)
    json["profile"] = show_kernels(work, device, arguments.bench.kernels);
  return json;
}

/// The recipe, with latents that are drawn.
DiffusionConfig bench_diffusion_config(const BenchDiffusionArguments& arguments) {
  auto config = load_diffusion_config(arguments.recipe, arguments.overrides);
  config.run.data.train = config.run.data.val =
      fmt::format("builtin:dead-leaves?size={}&count=1", config.run.data.size);
  config.latents = "encoder";
  if (config.run.train.global_batch > 0)
    config.run.train.batch_size = config.run.train.global_batch;
  if (config.classes > 0) {
    throw UserError("diffusion.classes: images that are drawn have no classes; set it to 0");
  }
  return config;
}

void run_bench_diffusion(const BenchDiffusionArguments& arguments) {
  JsonOutput output(arguments.json);
  const auto config = bench_diffusion_config(arguments);
  const auto device = choose_device(config.run.device);
  require_kernels(arguments.bench.kernels, device);
  const TorchFlags flags(training_torch_settings(config.run, device));
  const SideStreamGuard stream(device);
  const int64_t parameters = parameter_count(*DiffusionModel(config, arguments.channels));
  const auto precision = name_of(precision_on(config.run, device));
  fmt::print("{}, {}, U-Net of {} parameters\n", describe(device), precision, parameters);
  DiffusionJson json = {
      {"device", describe(device)}, {"precision", precision}, {"parameters", parameters}};
  json["training"] = bench_training(config, arguments, device);
  json["sampling"] = bench_sampling(config, arguments, device);
  output.write(json);
}

}  // namespace

void declare_bench_diffusion(CLI::App& app) {
  const auto arguments = std::make_shared<BenchDiffusionArguments>();
  app.add_option("CONFIG", arguments->recipe,
                 "recipe of latent diffusion (YAML); neither its images nor its tokenizer are read")
      ->required();
  app.add_option("SETTINGS", arguments->overrides, "key=value ..., overriding the recipe");
  app.add_option("--channels", arguments->channels, "of a latent")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--stride", arguments->stride, "pixels of data.size a latent")
      ->check(CLI::IsMember({1, 2, 4, 8, 16, 32}))
      ->capture_default_str();
  app.add_option("--samples", arguments->samples, "latents to sample in a batch")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  declare_step_bench_arguments(app, arguments->bench);
  declare_json_argument(app, arguments->json);
  app.callback([arguments] { run_bench_diffusion(*arguments); });
}

}  // namespace nsvq
