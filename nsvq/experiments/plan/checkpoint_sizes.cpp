#include "nsvq/experiments/plan/checkpoint_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "nsvq/core/error.h"
#include "nsvq/diffusion/config.h"
#include "nsvq/experiments/spec/job_kind.h"
#include "nsvq/nn/discriminator.h"
#include "nsvq/nn/unet.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

namespace {

double numbers_in(const torch::nn::Module& model) {
  int64_t numbers = 0;
  for (const auto& tensor : model.parameters()) numbers += tensor.numel();
  for (const auto& tensor : model.buffers()) numbers += tensor.numel();
  return static_cast<double>(numbers);
}

/// The settings of some sections, as text.
std::string settings_of(const OptionTable& table,
                        std::initializer_list<std::string_view> sections) {
  std::string text;
  for (const auto& row : table.rows) {
    const bool wanted = std::any_of(sections.begin(), sections.end(), [&](std::string_view name) {
      return row.key.starts_with(name);
    });
    if (wanted) text += row.key + "=" + row.value() + "\n";
  }
  return text;
}

}  // namespace

/// Networks are made here for the first time, so what does not fit together in a run shows here.
double CheckpointSizes::of(const Plan& plan, const PlannedRun& run) {
  try {
    if (trains(run.kind, RunKind::tokenizer)) return of_tokenizer(run);
    return trains(run.kind, RunKind::diffusion) ? of_diffusion(plan, run) : 0;
  } catch (const UserError& error) {
    throw UserError("run {}: {}", run.name, error.what());
  }
}

double CheckpointSizes::of_tokenizer(const PlannedRun& run) {
  auto config = parse_config(run.recipe, run.name);
  const auto key = settings_of(option_table(config), {"model.", "quantizer.", "adversarial."});
  const auto [found, fresh] = sizes_.try_emplace(key, 0);
  if (fresh) {
    double numbers = 4 * numbers_in(*Tokenizer(config));
    if (config.adversarial.weight > 0) {
      numbers += 3 * numbers_in(*Discriminator(config.adversarial));
    }
    found->second = sizeof(float) * numbers;
  }
  return found->second * static_cast<double>(config.checkpoint.keep);
}

double CheckpointSizes::of_diffusion(const Plan& plan, const PlannedRun& run) {
  DiffusionConfig config;
  const auto table = option_table(config);
  table.parse(run.recipe, run.name);
  int64_t channels = 0;
  for (const size_t need : run.needs) {
    const auto& other = plan.runs[need];
    if (trains(other.kind, RunKind::tokenizer))
      channels = parse_config(other.recipe, other.name).model.latent_dim;
  }
  const auto key = fmt::format("{}{} channels, {} labels", settings_of(table, {"unet."}), channels,
                               config.labels());
  const auto [found, fresh] = sizes_.try_emplace(key, 0);
  if (fresh) {
    const Unet unet(config.unet, UnetInputs{std::max<int64_t>(channels, 1), config.labels()});
    found->second = 4 * sizeof(float) * numbers_in(*unet);
  }
  return found->second * static_cast<double>(config.checkpoint.keep);
}

}  // namespace nsvq
