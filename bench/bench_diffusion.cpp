#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "bench/network_step.h"
#include "bench/profile.h"
#include "bench/program.h"
#include "nsvq/cli/output/json_output.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/diffusion/diffusion_trainer.h"
#include "nsvq/diffusion/latent_sampler.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/nn/layers.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "nsvq/train/run_setup.h"

namespace nsvq {

namespace {
struct BenchDiffusionArguments {
  std::string recipe;
  JsonArgument json;
  std::vector<std::string> overrides;
  int64_t channels = 128, stride = 8;
  int64_t samples = 256;
  int rounds = 10;
  SharedProbe probe = std::make_shared<KernelProbe>();
};

/// The smallest tokenizer with latents of the size asked for: no image is encoded or decoded.
LoadedModel stand_in_tokenizer(const BenchDiffusionArguments& arguments, c10::Device device) {
  TokenizerConfig config;
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

OneBatch random_latents(std::vector<int64_t> shape, const DiffusionConfig& config,
                        c10::Device device) {
  const int64_t count = config.train.batch_size;
  torch::manual_seed(0);
  shape.insert(shape.begin(), count);
  return OneBatch(
      {at::randn(shape).to(at::kBFloat16).to(device), at::arange(count, at::kLong).to(device)});
}

Json bench_training(const DiffusionConfig& config, const BenchDiffusionArguments& arguments,
                    c10::Device device) {
  LatentSpace latents(stand_in_tokenizer(arguments, device), config.latents, device);
  auto batches =
      random_latents(latents.shape(config.data.size, config.unet.stride()), config, device);
  const auto group = make_single_group();
  DiffusionTask task(config, latents, batches, group, device);
  Loop loop(task, batches, network_loop_options(config, device), group, device);
  const auto step = [&] { loop.step_for_benchmark(batches.batch(), {}); };
  arguments.probe->call_once(step);
  auto json = bench_network_steps(loop, batches, device, arguments.rounds);
  arguments.probe->show_rate(json["milliseconds"], batches.samples(), "image", json);
  arguments.probe->show_kernels(step, device, json);
  return json;
}

Json bench_sampling(const DiffusionConfig& config, const BenchDiffusionArguments& arguments,
                    c10::Device device) {
  const AutocastCacheGuard cached_casts;
  DiffusionModel model(config, arguments.channels);
  move_to_device(model, config, device);
  const int64_t side = config.data.size / arguments.stride;
  LatentSampler sampler(model, config, {arguments.channels, side, side}, device, /*graphs=*/true);
  SampleRequest request;
  for (int64_t i = 0; i < arguments.samples; ++i) request.indices.push_back(i);
  request.labels = labels_for(config.told(), /*wanted=*/-1, request.indices);
  const auto work = [&] { sampler.sample(request); };
  const double milliseconds = mean_milliseconds(work, device, arguments.rounds > 2 ? 3 : 1);
  const double rate = 1e3 * static_cast<double>(arguments.samples) / milliseconds;
  fmt::print("sampling {} latents, {} of {} steps: {:.3f} s, {:.1f} images/s\n", arguments.samples,
             config.sample.sampler, config.sample.steps, milliseconds / 1e3, rate);
  Json json = {{"images", arguments.samples},
               {"sampler", config.sample.sampler},
               {"steps", config.sample.steps},
               {"seconds", milliseconds / 1e3},
               {"images_per_second", rate}};
  arguments.probe->show_kernels(work, device, json);
  return json;
}

/// The recipe with random latents.
DiffusionConfig bench_diffusion_config(const BenchDiffusionArguments& arguments) {
  auto config = load_config<DiffusionConfig>(arguments.recipe, arguments.overrides);
  config.data.train = config.data.val =
      fmt::format("builtin:dead-leaves?size={}&count=1", config.data.size);
  config.latents = "encoder";
  if (config.train.global_batch > 0) config.train.batch_size = config.train.global_batch;
  if (config.classes > 0) {
    throw UserError("diffusion.classes: images that are drawn have no classes; set it to 0");
  }
  return config;
}

void run_bench_diffusion(const BenchDiffusionArguments& arguments) {
  JsonOutput output(arguments.json);
  const auto config = bench_diffusion_config(arguments);
  const auto device = choose_device(config.device);
  arguments.probe->check(device);
  const TorchFlags flags(training_torch_settings(config, precision_on(config, device)));
  const SideStreamGuard stream(device);
  const int64_t parameters = parameter_count(*DiffusionModel(config, arguments.channels));
  const auto precision = name_of(precision_on(config, device));
  fmt::print("{}, {}, U-Net of {} parameters\n", describe(device), precision, parameters);
  Json json = {{"device", describe(device)}, {"precision", precision}, {"parameters", parameters}};
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
  app.add_option("--channels", arguments->channels, "channels of a latent")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--stride", arguments->stride, "pixels of data.size a latent")
      ->check(CLI::IsMember({1, 2, 4, 8, 16, 32}))
      ->capture_default_str();
  app.add_option("--samples", arguments->samples, "latents to sample in a batch")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  declare_rounds_argument(app, arguments->rounds);
  arguments->probe->declare(app);
  declare_json_argument(app, arguments->json);
  app.callback([arguments] { run_bench_diffusion(*arguments); });
}

}  // namespace nsvq
