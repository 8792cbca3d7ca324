#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/bench/bench.h"
#include "nsvq/cli/output/json_output.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/train/vq/trainer.h"

namespace nsvq {

namespace {
struct BenchStepArguments {
  Sources data;
  std::string recipe;
  JsonArgument json;
  std::vector<std::string> overrides;
  std::string phase;
  int64_t limit = 0;
  int rounds = 10;
  bool step_only = false;
  SharedProbe probe;
};

/// Times a module or loss of the step, run alone.
using TimeAlone = std::function<void(const std::string& name, const Work& work)>;

void time_networks(Tokenizer& model, const torch::Tensor& images, const TimeAlone& time) {
  const auto latents = model->to_latents(images).detach();
  QuantizerStep step;
  step.seed = at::zeros({}, images.options().dtype(at::kLong));
  const auto codes = model->quantizer->quantize(latents, step).latents.detach();
  time("encoder", [&] { model->to_latents(images).sum().backward(); });
  time("quantizer", [&] {
    const auto leaf = latents.detach().requires_grad_();
    const auto result = model->quantizer->quantize(leaf, step);
    (result.loss + result.latents.sum()).backward();
  });
  time("decoder", [&] {
    const auto leaf = codes.detach().requires_grad_();
    model->to_images(leaf).sum().backward();
  });
}

void time_discriminator(const TokenizerConfig& config, Precision precision,
                        const torch::Tensor& images, const TimeAlone& time) {
  Adversary adversary(config, images.device());
  time("discriminator", [&] {
    const auto leaf = images.detach().requires_grad_();
    adversary.generator_term(leaf).backward();
    Scalars scalars;
    adversary.optimizer().clear_gradients();
    LossScale(precision, images.device()).backward(adversary.objective(images, images, scalars));
  });
}

void time_optimizer(const TokenizerConfig& config, Tokenizer& model, c10::Device device,
                    const TimeAlone& time) {
  Tokenizer averaged(config);
  move_to_device(averaged, config, device);
  const WeightAverage average(model.ptr(), averaged.ptr(), config.optimizer.ema_decay);
  Adam optimizer(named_parameters(*model), config.optimizer, &average);
  time("optimizer and average", [&] { optimizer.step(); });
}

/// Prints a table of the modules and losses of the generator's step, forward and backward, each
/// timed alone on precomputed inputs.
Json show_parts(const TokenizerConfig& config, c10::Device device, int rounds) {
  const auto images = random_images(config.train.batch_size, config.data.size, device);
  auto model = make_tokenizer(config, device);
  const auto losses = make_losses(config.loss, config.data.size, device);
  Json json;
  fmt::print("| part, alone | ms |\n|---|---|\n");
  const auto time = [&](const std::string& name, const Work& work) {
    const auto taken = time_work(work, device, rounds);
    if (!taken) return;
    fmt::print("| {} | {:.3f} |\n", name, taken->milliseconds);
    json[name] = taken->milliseconds;
  };
  time_networks(model, images, time);
  for (const auto& term : losses) {
    time(term.name, [&] {
      const auto leaf = images.detach().requires_grad_();
      const AutocastGuard autocast(model->precision, device);
      (*term.loss)(leaf, images).backward();
    });
  }
  if (config.adversarial.weight > 0) time_discriminator(config, model->precision, images, time);
  time_optimizer(config, model, device, time);
  return json;
}

int64_t phase_number(const TokenizerConfig& config, const std::string& name) {
  const auto& phases = config.schedule.phases;
  if (name.empty()) return 0;
  const auto found = std::find(phases.begin(), phases.end(), name);
  if (found == phases.end()) {
    throw UserError("--phase: '{}' is not in schedule.phases ({})", name, fmt::join(phases, ", "));
  }
  return found - phases.begin();
}

/// Times the loader alone, and training steps on its batches.
Json show_loading(Trainer& trainer, const TokenizerConfig& config,
                  std::shared_ptr<const Source> source, c10::Device device, int64_t phase) {
  constexpr int batches = 100;
  Loader loader(std::move(source), training_loader_options(config, *make_single_group(), device));
  int64_t epoch = 0;
  const auto next = [&] {
    auto batch = loader.next();
    if (batch) return batch->images;
    loader.start(++epoch);
    return loader.next()->images;
  };
  const Json json = {
      {"loader_milliseconds", mean_milliseconds([&] { next(); }, device, batches)},
      {"step_milliseconds",
       mean_milliseconds([&] { trainer.step_for_benchmark(next(), phase); }, device, batches)}};
  const double alone = json["loader_milliseconds"], step = json["step_milliseconds"];
  const auto rate = [&](double ms) {
    return 1e3 * static_cast<double>(config.train.batch_size) / ms;
  };
  fmt::print(
      "from --data: {:.2f} ms a step, {:.1f} images/s; the loader alone {:.2f} ms, {:.1f} "
      "images/s\n\n",
      step, rate(step), alone, rate(alone));
  return json;
}

/// Prints the time and the memory that a step takes.
void show_step(const Work& step, const TokenizerConfig& config, const BenchStepArguments& arguments,
               c10::Device device, Json& json) {
  arguments.probe->call_once(step);
  for (int i = 0; i < 4; ++i) step();  // until the CUDA graph is captured
  // Measured after the eager steps: statistics of a graph's pool tell only what is reserved.
  const MemoryUse memory(device);
  const auto taken = time_work(step, device, arguments.rounds);
  if (!taken) throw RunError("out of memory: the step does not fit into the device's memory");
  const double rate = 1e3 * static_cast<double>(config.train.batch_size) / taken->milliseconds;
  fmt::print("{}, {}, batch {}: {:.2f} ms a step, {:.1f} images/s, {}\n", describe(device),
             json["precision"].get<std::string>(), config.train.batch_size, taken->milliseconds,
             rate, memory.text());
  json["milliseconds"] = taken->milliseconds;
  json["images_per_second"] = rate;
  memory.add_to(json);
  arguments.probe->show_rate(taken->milliseconds, 1, "step", json);
  fmt::print("\n");
}

/// The recipe with generated images.
TokenizerConfig bench_config(const BenchStepArguments& arguments) {
  auto config = load_config(arguments.recipe, arguments.overrides);
  config.data.train = config.data.val = fmt::format("builtin:dead-leaves?size={}&count={}",
                                                    config.data.size, config.train.batch_size);
  config.drift.images = 0;
  return config;
}

void run_bench_step(const BenchStepArguments& arguments) {
  JsonOutput output(arguments.json);
  const auto config = bench_config(arguments);
  const auto device = choose_device(config.device);
  const TorchFlags flags(training_torch_settings(config, precision_on(config, device)));
  arguments.probe->check(device);
  const SideStreamGuard stream(device);
  const TemporaryFolder folder;
  const auto phase = phase_number(config, arguments.phase);
  std::shared_ptr<const Source> source;
  if (!arguments.data.items.empty()) {
    source = limited(open_source(arguments.data), arguments.limit);
  }
  Json json = {{"device", describe(device)},
               {"precision", name_of(choose_precision(config.train.precision, device))},
               {"batch_size", config.train.batch_size}};
  {  // The trainer is gone before its modules are timed.
    Trainer trainer(config, folder / "run", make_single_group());
    const auto images = random_images(config.train.batch_size, config.data.size, device);
    const auto step = [&] { trainer.step_for_benchmark(images, phase); };
    show_step(step, config, arguments, device, json);
    if (source) json["loading"] = show_loading(trainer, config, source, device, phase);
    arguments.probe->show_kernels(step, device, json);
  }
  if (!arguments.step_only) json["parts"] = show_parts(config, device, arguments.rounds);
  output.write(json);
}

}  // namespace

void declare_bench_step(CLI::App& app, const SharedProbe& probe) {
  const auto arguments = std::make_shared<BenchStepArguments>();
  arguments->probe = probe;
  app.add_option("CONFIG", arguments->recipe, "recipe (YAML); its images are not read")->required();
  app.add_option("SETTINGS", arguments->overrides, "key=value ..., overriding the recipe");
  declare_data(app, arguments->data,
               "also time the loader on these images, and steps on its batches");
  declare_limit(app, arguments->limit);
  app.add_option("--phase", arguments->phase,
                 "phase of the recipe's schedule to time (default: the first)");
  app.add_flag("--step-only", arguments->step_only, "do not time the parts");
  declare_rounds_argument(app, arguments->rounds);
  probe->declare(app);
  declare_json_argument(app, arguments->json);
  app.callback([arguments] { run_bench_step(*arguments); });
}

}  // namespace nsvq
