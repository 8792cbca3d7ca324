#include "nsvq/cli/bench/bench_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "nsvq/cli/bench/bench_timer.h"
#include "nsvq/cli/bench/flop_counter.h"
#include "nsvq/cli/bench/kernel_profile.h"
#include "nsvq/cli/output/json_output.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/recipe/recipe.h"
#include "nsvq/train/vq/trainer.h"

namespace nsvq {

namespace {

using Json = nlohmann::ordered_json;

struct BenchStepArguments {
  Sources data;
  std::string recipe, json;
  std::vector<std::string> overrides;
  std::string phase;
  StepBenchArguments bench;
  bool step_only = false;
};

/// A part of the step and its time when run alone.
struct Part {
  std::string name;
  double milliseconds;
};

/// Times a part and keeps it.
using TimePart = std::function<void(const std::string& name, const Work& work)>;

void time_networks(Tokenizer& model, const torch::Tensor& images, const TimePart& take) {
  const auto latents = model->to_latents(images).detach();
  QuantizerStep step;
  step.seed = at::zeros({}, images.options().dtype(at::kLong));
  const auto codes = model->quantizer->quantize(latents, step).latents.detach();
  take("encoder", [&] { model->to_latents(images).sum().backward(); });
  take("quantizer", [&] {
    const auto leaf = latents.detach().requires_grad_();
    const auto result = model->quantizer->quantize(leaf, step);
    (result.loss + result.latents.sum()).backward();
  });
  take("decoder", [&] {
    const auto leaf = codes.detach().requires_grad_();
    model->to_images(leaf).sum().backward();
  });
}

void time_discriminator(const Config& config, Precision precision, const torch::Tensor& images,
                        const TimePart& take) {
  Adversary adversary(config, images.device());
  take("discriminator", [&] {
    const auto leaf = images.detach().requires_grad_();
    adversary.generator_term(leaf).backward();
    Scalars scalars;
    adversary.optimizer().clear_gradients();
    LossScale(precision, images.device()).backward(adversary.objective(images, images, scalars));
  });
}

void time_optimizer(const Config& config, Tokenizer& model, c10::Device device,
                    const TimePart& take) {
  Tokenizer averaged(config);
  move_to_device(averaged, config, device);
  const WeightAverage average(model.ptr(), averaged.ptr(), config.optimizer.ema_decay);
  Adam optimizer(named_parameters(*model), config.optimizer, &average);
  take("optimizer and average", [&] { optimizer.step(); });
}

/// Times the parts of the generator's step, forward and backward, each alone on precomputed inputs.
std::vector<Part> time_parts(const Config& config, c10::Device device, int rounds) {
  const auto images = random_images(config.train.batch_size, config.data.size, device);
  auto model = make_tokenizer(config, device);
  const auto losses = make_losses(config, device);
  std::vector<Part> parts;
  const auto take = [&](const std::string& name, const Work& work) {
    if (const auto taken = time_work(work, device, rounds)) {
      parts.push_back({name, taken->milliseconds});
    }
  };
  time_networks(model, images, take);
  for (const auto& term : losses) {
    take(term.name, [&] {
      const auto leaf = images.detach().requires_grad_();
      const AutocastGuard autocast(model->precision, device);
      (*term.loss)(leaf, images).backward();
    });
  }
  if (config.adversarial.weight > 0) time_discriminator(config, model->precision, images, take);
  time_optimizer(config, model, device, take);
  return parts;
}

Json show_parts(const Config& config, c10::Device device, int rounds) {
  Json json;
  fmt::print("| part, alone | ms |\n|---|---|\n");
  for (const auto& part : time_parts(config, device, rounds)) {
    fmt::print("| {} | {:.3f} |\n", part.name, part.milliseconds);
    json[part.name] = part.milliseconds;
  }
  return json;
}

int64_t phase_number(const Config& config, const std::string& name) {
  const auto& phases = config.schedule.phases;
  if (name.empty()) return 0;
  const auto found = std::find(phases.begin(), phases.end(), name);
  if (found == phases.end()) {
    throw UserError("--phase: '{}' is not in schedule.phases ({})", name, fmt::join(phases, ", "));
  }
  return found - phases.begin();
}

/// Times the loader alone, and training steps on its batches.
Json show_loading(Trainer& trainer, const Config& config, std::shared_ptr<const Source> source,
                  c10::Device device, int64_t phase) {
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
void show_step(const Work& step, const Config& config, const BenchStepArguments& arguments,
               c10::Device device, Json& json) {
  const double flops = convolution_flops(step);
  for (int i = 0; i < 4; ++i) step();  // until the CUDA graph is captured
  // Allocated by the eager steps: of a graph's pool statistics know what is reserved alone.
  const double memory = peak_memory(device);
  const auto reserved = peak_reserved_memory(device);
  const auto taken = time_work(step, device, arguments.bench.rounds);
  if (!taken) throw RunError("out of memory: the step does not fit into the device's memory");
  const double rate = 1e3 * static_cast<double>(config.train.batch_size) / taken->milliseconds;
  fmt::print("{}, {}, batch {}: {:.2f} ms a step, {:.1f} images/s, {:.2f} GiB at most{}\n",
             describe(device), json["precision"].get<std::string>(), config.train.batch_size,
             taken->milliseconds, rate, memory,
             reserved ? fmt::format(", {:.2f} GiB reserved", *reserved) : "");
  const double reached = flops / taken->milliseconds / 1e9;
  fmt::print("convolutions: {:.3g} GFLOP a step, so {:.3g} TFLOP/s{}\n\n", flops / 1e9, reached,
             share_of_peak(reached, arguments.bench.peak));
  json["milliseconds"] = taken->milliseconds;
  json["images_per_second"] = rate;
  json["peak_gib"] = memory;
  if (reserved) json["peak_reserved_gib"] = *reserved;
  json["convolution_flop"] = flops;
}

/// The recipe, with images that are drawn and not read.
Config bench_config(const BenchStepArguments& arguments) {
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
  const TorchFlags flags(training_torch_settings(config, device));
  require_kernels(arguments.bench.kernels, device);
  const SideStreamGuard stream(device);
  const TemporaryFolder folder;
  const auto phase = phase_number(config, arguments.phase);
  std::shared_ptr<const Source> source;
  if (!arguments.data.items.empty()) source = open_source(arguments.data);
  Json json = {{"device", describe(device)},
               {"precision", name_of(choose_precision(config.train.precision, device))},
               {"batch_size", config.train.batch_size}};
  {  // The parts get the memory of the whole.
    Trainer trainer(config, folder / "run", make_single_group());
    const auto images = random_images(config.train.batch_size, config.data.size, device);
    const auto step = [&] { trainer.step_for_benchmark(images, phase); };
    show_step(step, config, arguments, device, json);
    if (source) json["loading"] = show_loading(trainer, config, source, device, phase);
    if (arguments.bench.kernels > 0)
      json["profile"] = show_kernels(step, device, arguments.bench.kernels);
  }
  if (!arguments.step_only) json["parts"] = show_parts(config, device, arguments.bench.rounds);
  output.write(json);
}

}  // namespace

void declare_bench_step(CLI::App& app) {
  const auto arguments = std::make_shared<BenchStepArguments>();
  app.add_option("CONFIG", arguments->recipe, "recipe (YAML); its images are not read")->required();
  app.add_option("SETTINGS", arguments->overrides, "key=value ..., overriding the recipe");
  arguments->data.pipes_allowed = true;
  app.add_option("--data", arguments->data.items,
                 "SOURCE: also time the loader on these images, and steps on its batches");
  app.add_option("--phase", arguments->phase,
                 "phase of the recipe's schedule to time (default: the first)");
  app.add_flag("--step-only", arguments->step_only, "do not time the parts");
  declare_step_bench_arguments(app, arguments->bench);
  declare_json_argument(app, arguments->json);
  app.callback([arguments] { run_bench_step(*arguments); });
}

}  // namespace nsvq
