#include "nsvq/recipe/optimizer.h"

#include <fmt/format.h>

#include <utility>

#include "nsvq/core/error.h"

namespace nsvq {

std::vector<Option> lr_schedule_options(const std::string& section, const std::string& what,
                                        LrScheduleConfig& schedule,
                                        const std::vector<std::string>& shapes) {
  return {
      {section + ".shape", &schedule.shape, "learning rate of the " + what + " over its steps",
       Range::one_of(shapes)},
      {section + ".warmup_steps", &schedule.warmup_steps,
       "first steps, over which the rate rises linearly from 0", Range::at_least(0)},
      {section + ".steps", &schedule.steps,
       "linear, cosine: steps, warm-up included, after which the final rate is reached; 0: all of "
       "the run",
       Range::at_least(0)},
      {section + ".final_share", &schedule.final_share,
       "linear, cosine: the final rate as a share of the full one", Range::between(0, 1)},
  };
}

std::vector<Option> optimizer_options(OptimizerConfig& optimizer) {
  const auto scale = [](const std::string& part, double* field, const std::string& instead_of_0) {
    auto range = Range::between(1e-6, 1e6);
    range.text = fmt::format("1e-06 to 1e+06; not 0: {}", instead_of_0);
    return Option{"optimizer.scale." + part, field, "factor on the learning rate of the " + part,
                  range};
  };
  std::vector<Option> rows = {
      {"optimizer.lr", &optimizer.lr, "Adam: learning rate", Range::above(0)},
      {"optimizer.beta1", &optimizer.beta1, "Adam: decay of the first moment",
       Range::from_to_below(0, 1)},
      {"optimizer.beta2", &optimizer.beta2, "Adam: decay of the second moment",
       Range::from_to_below(0, 1)},
      {"optimizer.eps", &optimizer.eps, "Adam: term that keeps the division finite",
       Range::above(0)},
      {"optimizer.eps_quantizer", &optimizer.eps_quantizer,
       "Adam: that term for the quantizer, so small that codes with tiny gradients move too; 0: "
       "optimizer.eps",
       Range::between(0, 1e30)},
      {"optimizer.weight_decay", &optimizer.weight_decay,
       "AdamW: share of every parameter that a step of rate 1 takes away; 0: Adam",
       Range::between(0, 1000)},
      {"optimizer.clip_norm", &optimizer.clip_norm,
       "largest L2 norm of all gradients of the generator, and of the discriminator; 0: no limit",
       Range::between(0, 1e30)},
      {"optimizer.ema_decay", &optimizer.ema_decay, "decay of the averaged weights; 0: no average",
       Range::from_to_below(0, 1)},
      scale("encoder", &optimizer.scale.encoder,
            "schedule.freeze and schedule.phases freeze an encoder"),
      scale("decoder", &optimizer.scale.decoder, "a decoder cannot be frozen"),
      scale("quantizer", &optimizer.scale.quantizer,
            "a codebook cannot be frozen; fsq and lfq have fixed codes"),
      scale("discriminator", &optimizer.scale.discriminator,
            "a discriminator cannot be frozen; adversarial.weight=0 is without one"),
  };
  for (auto& row : lr_schedule_options("optimizer.schedule", "generator", optimizer.schedule,
                                       {"constant", "linear", "cosine"})) {
    rows.push_back(std::move(row));
  }
  return rows;
}

void check_eps(const OptimizerConfig& optimizer) {
  constexpr double least = 1e-37;  // below it fp32 has no full precision, and soon only 0
  if (optimizer.eps_quantizer == 0 || optimizer.eps_quantizer >= least) return;
  throw UserError("optimizer.eps_quantizer is {}; expected 0, for optimizer.eps, or {} at least",
                  optimizer.eps_quantizer, least);
}

void check_lr_schedule(const std::string& section, const LrScheduleConfig& schedule) {
  const bool falls = schedule.shape == "linear" || schedule.shape == "cosine";
  if (!falls || schedule.steps == 0 || schedule.warmup_steps <= schedule.steps) return;
  throw UserError("{0}.warmup_steps is {1}, but {0}.steps, which includes them, is {2}", section,
                  schedule.warmup_steps, schedule.steps);
}

}  // namespace nsvq
