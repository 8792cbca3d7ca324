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
#include "nsvq/generation/generator_model.h"
#include "nsvq/generation/generator_trainer.h"
#include "nsvq/generation/sampling/token_sampler.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/nn/layers.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "nsvq/train/run_setup.h"

namespace nsvq {

namespace {

struct BenchGenerationArguments {
  std::string recipe;
  JsonArgument json;
  std::vector<std::string> overrides;
  int64_t codes = 16384, side = 16, samples = 64;
  int rounds = 10;
  bool decode = false, sample_only = false, step_only = false;
  SharedProbe probe = std::make_shared<KernelProbe>();
};

std::unique_ptr<OneBatch> random_tokens(const GridShape& grid, int64_t count, c10::Device device) {
  torch::manual_seed(0);
  const auto draw = [&](int64_t most, std::vector<int64_t> shape) {
    return at::randint(most, shape, at::kLong).to(device);
  };
  TensorBatch batch = {draw(grid.codes, {count, grid.height, grid.width}),
                       at::arange(count, at::kLong).to(device)};
  if (grid.classes > 0) batch.push_back(draw(grid.classes, {count}));
  return std::make_unique<OneBatch>(std::move(batch));
}

GridShape grid_of(const BenchGenerationArguments& arguments, const GenerationConfig& config) {
  return {arguments.side, arguments.side, arguments.codes, config.classes};
}

Json bench_token_training(const GenerationConfig& config, const BenchGenerationArguments& arguments,
                          c10::Device device) {
  const auto grid = grid_of(arguments, config);
  auto random = random_tokens(grid, config.train.batch_size, device);
  const auto& batches = *random;
  const TrainingTokens data{std::move(random), grid};
  const auto group = make_single_group();
  GeneratorTask task(config, nullptr, data, group, device);
  Loop loop(task, *data.batches, network_loop_options(config, device), group, device);
  auto json = bench_network_steps(loop, batches, device, arguments.rounds);
  arguments.probe->show_kernels([&] { loop.step_for_benchmark(batches.batch(), {}); }, device,
                                json);
  return json;
}

/// A decoder with the sizes of LlamaGen's VQ-16 and random weights.
Tokenizer stand_in_decoder(const BenchGenerationArguments& arguments, c10::Device device) {
  TokenizerConfig config;
  config.model.family = "taming";
  config.model.width = 128;
  config.model.multipliers = {1, 1, 2, 2, 4};
  config.model.blocks = 2;
  config.model.attention = {4};
  config.model.mid_attention = true;
  config.model.z_channels = 256;
  config.model.latent_dim = 8;
  config.quantizer.type = "vq";
  config.quantizer.codes = arguments.codes;
  auto tokenizer = make_tokenizer(config, device);
  tokenizer->eval();
  return tokenizer;
}

Json bench_token_sampling(const GenerationConfig& config, const BenchGenerationArguments& arguments,
                          c10::Device device) {
  const AutocastCacheGuard cached_casts;
  const auto grid = grid_of(arguments, config);
  check_sampling(config.sampling, config.generator, grid);
  const auto generator = make_generator(config.generator, grid);
  move_to_device(*generator, config, device);
  cast_for_sampling(*generator);
  TokenSampler sampler(generator, grid, config.sampling, device, arguments.samples,
                       /*graphs=*/device.is_cuda());
  GenerationRequest request;
  for (int64_t i = 0; i < arguments.samples; ++i) request.indices.push_back(i);
  request.labels = labels_for(config.told(), /*wanted=*/-1, request.indices);
  std::optional<Tokenizer> decoder;
  if (arguments.decode) decoder.emplace(stand_in_decoder(arguments, device));
  const auto work = [&] {
    const auto tokens = sampler.sample(request);
    if (decoder) (*decoder)->decode(tokens);
  };
  const torch::NoGradGuard no_grad;
  work();  // until the CUDA graph is captured
  const double milliseconds = mean_milliseconds(work, device, arguments.rounds > 2 ? 3 : 1);
  const double rate = 1e3 * static_cast<double>(arguments.samples) / milliseconds;
  const int64_t steps = sampling_steps(config.sampling, config.generator, grid);
  fmt::print(
      "sampling {} images, {} steps, guidance {}{}: {:.3f} s, {:.1f} images/s, {:.0f} "
      "tokens/s\n",
      arguments.samples, steps, config.sampling.guidance, decoder ? ", decoding included" : "",
      milliseconds / 1e3, rate, rate * static_cast<double>(grid.positions()));
  Json json = {{"images", arguments.samples},          {"steps", steps},
               {"guidance", config.sampling.guidance}, {"decode", arguments.decode},
               {"seconds", milliseconds / 1e3},        {"images_per_second", rate}};
  arguments.probe->show_kernels(work, device, json);
  return json;
}

/// The recipe with random tokens.
GenerationConfig bench_generation_config(const BenchGenerationArguments& arguments) {
  auto config = load_config<GenerationConfig>(arguments.recipe, with_sections(arguments.overrides));
  config.tokens = "random";
  if (config.train.global_batch > 0) config.train.batch_size = config.train.global_batch;
  config.train.global_batch = 0;
  return config;
}

void run_bench_generation(const BenchGenerationArguments& arguments) {
  JsonOutput output(arguments.json);
  const auto config = bench_generation_config(arguments);
  const auto device = choose_device(config.device);
  arguments.probe->check(device);
  const TorchFlags flags(training_torch_settings(config, precision_on(config, device)));
  const SideStreamGuard stream(device);
  const auto grid = grid_of(arguments, config);
  const int64_t parameters = parameter_count(*make_generator(config.generator, grid));
  const auto precision = name_of(precision_on(config, device));
  fmt::print("{}, {}, {} of {} parameters, {}x{} tokens of {} codes\n", describe(device), precision,
             config.generator.family, parameters, grid.height, grid.width, grid.codes);
  Json json = {{"device", describe(device)}, {"precision", precision},
               {"parameters", parameters},   {"codes", grid.codes},
               {"tokens", grid.positions()}, {"family", config.generator.family}};
  if (!arguments.sample_only) json["training"] = bench_token_training(config, arguments, device);
  if (!arguments.step_only) json["sampling"] = bench_token_sampling(config, arguments, device);
  output.write(json);
}

}  // namespace

void declare_bench_generation(CLI::App& app) {
  const auto arguments = std::make_shared<BenchGenerationArguments>();
  app.add_option("CONFIG", arguments->recipe,
                 "recipe of a generator (YAML); neither its tokens nor its tokenizer are read")
      ->required();
  app.add_option("SETTINGS", arguments->overrides, "key=value ..., overriding the recipe");
  app.add_option("--codes", arguments->codes, "number of codes")
      ->check(CLI::Range(int64_t{4}, int64_t{1} << 24))
      ->capture_default_str();
  app.add_option("--side", arguments->side, "tokens of a grid's side")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--samples", arguments->samples, "images to sample in a batch")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_flag("--decode", arguments->decode,
               "decode samples by a network of the sizes of LlamaGen's VQ-16");
  app.add_flag("--step-only", arguments->step_only, "no sampling");
  app.add_flag("--sample-only", arguments->sample_only, "no training step");
  declare_rounds_argument(app, arguments->rounds);
  arguments->probe->declare(app);
  declare_json_argument(app, arguments->json);
  app.callback([arguments] { run_bench_generation(*arguments); });
}

}  // namespace nsvq
