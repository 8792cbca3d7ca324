#include "nsvq/generation/generator.h"

#include <fmt/format.h>
#include <torch/nn/modules/linear.h>

#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/generation/members.h"
#include "nsvq/generation/sampling/token_sampling.h"
#include "nsvq/generation/token_head.h"
#include "nsvq/nn/transformer.h"

namespace nsvq {

namespace {

/// Throws UserError for a setting of one order or schedule where another is chosen.
void check_order(const SamplingConfig& sampling) {
  const SamplingConfig defaults;
  if (sampling.order != "confidence" &&
      sampling.choice_temperature != defaults.choice_temperature) {
    throw UserError("sampling.choice_temperature is {}, but only sampling.order confidence uses it",
                    sampling.choice_temperature);
  }
  if (sampling.redraw && sampling.order != "halton") {
    throw UserError(
        "sampling.redraw is true, but only sampling.order halton uses it; leave it false");
  }
  if (sampling.guidance_schedule != "power-cosine" &&
      sampling.guidance_power != defaults.guidance_power) {
    throw UserError(
        "sampling.guidance_power is {}, but only sampling.guidance_schedule power-cosine uses it",
        sampling.guidance_power);
  }
}

void check_guidance(const SamplingConfig& sampling, const GeneratorConfig& config,
                    const GridShape& grid) {
  if (sampling.guidance == 1) return;
  if (grid.classes == 0) {
    throw UserError("sampling.guidance is {}, but the generator knows no classes; leave it 1",
                    sampling.guidance);
  }
  if (config.label_dropout > 0) return;
  throw UserError(
      "sampling.guidance is {}, but it needs a generator that was trained with dropped labels, and "
      "generator.label_dropout is 0; leave it 1",
      sampling.guidance);
}

}  // namespace

std::vector<Option> generator_options(GeneratorConfig& config) {
  return {
      {"generator.family", &config.family,
       "what learns the tokens: masked as Halton-MaskGIT, ar as LlamaGen, rar as RAR",
       Range::one_of(names_of(generator_kinds()))},
      {"generator.width", &config.width, "channels of a token", Range::between(4, 16384)},
      {"generator.depth", &config.depth, "blocks of the transformer", Range::between(1, 256)},
      {"generator.heads", &config.heads, "heads of the attention", Range::between(1, 256)},
      {"generator.hidden", &config.hidden,
       "channels inside an MLP; 0: 8/3 of the width in steps of 256 (masked, ar), 4 of it (rar)",
       Range::between(0, 65536)},
      {"generator.dropout", &config.dropout,
       "share of values set to zero in training, where the family's paper has it",
       Range::from_to_below(0, 1)},
      {"generator.label_dropout", &config.label_dropout,
       "with classes: share of images whose class is not told, so that samples can be guided",
       Range::from_to_below(0, 1)},
      {"generator.head", &config.head,
       "how codes are told: full by a logit each; factorised, for very many, in two parts, as "
       "Open-MAGVIT2; bits, for any number, bit by bit",
       Range::one_of({"full", "factorised", "bits"})},
      {"generator.head_depth", &config.head_depth,
       "head factorised: blocks of the transformer on the two parts", Range::between(1, 16)},
      {"generator.modulation", &config.modulation,
       "masked, rar: the layer that makes scales and shifts of the class: block, one in each; "
       "shared, "
       "one for all blocks, each of which adds its own offset",
       Range::one_of({"block", "shared"})},
      {"generator.registers", &config.registers,
       "masked: learned vectors that stand beside the tokens", Range::between(0, 64)},
      {"generator.anneal_from", &config.anneal_from,
       "rar: share of the training after which fewer images have a random order",
       Range::between(0, 1)},
      {"generator.anneal_to", &config.anneal_to,
       "rar: share of the training after which all images are learned row by row",
       Range::between(0, 1)},
  };
}

std::vector<Option> sampling_options(SamplingConfig& config) {
  constexpr auto no_effect = Effect::not_on_result;
  return {
      {"sampling.guidance", &config.guidance,
       "w of u + w (c - u), with c the logits by the class and u those without: 1 without "
       "guidance; "
       "Halton-MaskGIT's w, where 0 is without, is one less",
       Range::between(0, 1000), no_effect},
      {"sampling.guidance_schedule", &config.guidance_schedule,
       "w over the steps: constant; linear up to w; power-cosine as RAR, from 1 to w",
       Range::one_of(names_of(guidance_schedules())), no_effect},
      {"sampling.guidance_power", &config.guidance_power,
       "p of schedule power-cosine: 1 + (w - 1) (1 - cos(pi (step / steps)^p)) / 2",
       Range::above(0), no_effect},
      {"sampling.steps", &config.steps,
       "masked: steps, at most one a token; 0: 32, or one a token where there are fewer",
       Range::between(0, 1e6), no_effect},
      {"sampling.temperature", &config.temperature,
       "by which logits are divided: below 1 likely codes are drawn more often", Range::above(0),
       no_effect},
      {"sampling.first_temperature", &config.first_temperature,
       "masked: that of the first step, from which 1 / temperature goes to that of the last; 0: "
       "sampling.temperature in every step",
       Range::at_least(0), no_effect},
      {"sampling.top_k", &config.top_k, "codes that a draw chooses from, the likeliest; 0: all",
       Range::between(0, 1e9), no_effect},
      {"sampling.top_p", &config.top_p,
       "a draw chooses from the likeliest codes that have this probability together; 1: from all",
       [] {
         auto range = Range::above(0);
         range.high = 1;
         range.text = "above 0, at most 1";
         return range;
       }(),
       no_effect},
      {"sampling.order", &config.order,
       "masked: which tokens a step finds; halton: spread over the image; confidence: those drawn "
       "with the highest probability, as MaskGIT",
       Range::one_of({"halton", "confidence"}), no_effect},
      {"sampling.redraw",
       &config.redraw,
       "order halton: each step also draws the tokens anew that were found before it, as the "
       "authors' program does",
       {},
       no_effect},
      {"sampling.choice_temperature", &config.choice_temperature,
       "order confidence: factor of the noise on log probabilities, which falls to 0",
       Range::at_least(0), no_effect},
  };
}

void check_generator(GeneratorConfig config, const GridShape& grid) {
  require_in_range(generator_options(config));
  TORCH_CHECK(grid.height > 0 && grid.width > 0 && grid.codes > 0 && grid.classes >= 0,
              "generator: a grid of ", grid.height, "x", grid.width, " tokens of ", grid.codes,
              " codes, ", grid.classes, " classes");
  if (config.anneal_to <= config.anneal_from) {
    throw UserError("generator.anneal_to is {}; set it above generator.anneal_from, which is {}",
                    config.anneal_to, config.anneal_from);
  }
  if (config.head != "full" && grid.codes < 4) {
    throw UserError("generator.head is {}, but there are {} codes; set it to full", config.head,
                    grid.codes);
  }
  if (config.family == "ar" && config.modulation != GeneratorConfig().modulation) {
    throw UserError("generator.modulation is {}, but family ar has none; leave it block",
                    config.modulation);
  }
  generator_kind(config.family).check(config);
}

void check_sampling(SamplingConfig sampling, const GeneratorConfig& config, const GridShape& grid) {
  require_in_range(sampling_options(sampling));
  check_guidance(sampling, config, grid);
  check_order(sampling);
  const bool in_steps = generator_kind(config.family).steps != nullptr;
  if (sampling.steps > 0 && !in_steps) {
    throw UserError("sampling.steps is {}, but family {} takes one step a token; leave it 0",
                    sampling.steps, config.family);
  }
  if (sampling.order != SamplingConfig().order && !in_steps) {
    throw UserError("sampling.order is {}, but family {} finds tokens row by row; leave it {}",
                    sampling.order, config.family, SamplingConfig().order);
  }
  if ((sampling.first_temperature > 0 || sampling.redraw) && !in_steps) {
    throw UserError("{}, but family {} draws each token once; leave it {}",
                    sampling.redraw ? "sampling.redraw is true"
                                    : fmt::format("sampling.first_temperature is {}",
                                                  sampling.first_temperature),
                    config.family, sampling.redraw ? "false" : "0");
  }
  if (sampling.steps > grid.positions()) {
    throw UserError("sampling.steps is {}, but an image has {} tokens; set at most as many",
                    sampling.steps, grid.positions());
  }
  if (config.head == "bits" && (sampling.top_k > 0 || sampling.top_p < 1)) {
    throw UserError(
        "sampling.top_k is {} and sampling.top_p {}, but generator.head bits draws bit by bit; "
        "leave them 0 and 1",
        sampling.top_k, sampling.top_p);
  }
  if (sampling.top_k > grid.codes) {
    throw UserError("sampling.top_k is {}, but there are {} codes; set at most as many, or 0",
                    sampling.top_k, grid.codes);
  }
}

torch::Tensor Generator::surprise(const TokenImages& images) {
  const torch::NoGradGuard no_grad;
  return loss(images, /*training=*/false);
}

const std::vector<GeneratorKind>& generator_kinds() {
  static const std::vector<GeneratorKind> kinds = {masked_kind(), ar_kind(), rar_kind()};
  return kinds;
}

const GeneratorKind& generator_kind(const std::string& name) {
  return find_named(generator_kinds(), "generator", name, "generator.family");
}

std::shared_ptr<Generator> make_generator(const GeneratorConfig& config, const GridShape& grid) {
  check_generator(config, grid);
  return generator_kind(config.family).make(config, grid);
}

void cast_for_sampling(Generator& generator) {
  const bool half = generator.precision == Precision::fp16;
  if (generator.precision != Precision::bf16 && !half) return;
  const auto type = half ? at::kHalf : at::kBFloat16;
  const auto cast = [&](torch::Tensor& values) {
    if (values.defined()) values.set_data(values.detach().to(type));
  };
  for (const auto& module : generator.modules()) {
    if (auto* linear = module->as<torch::nn::LinearImpl>()) {
      cast(linear->weight);
      cast(linear->bias);
    }
    if (auto* head = dynamic_cast<TokenHead*>(module.get())) head->cast_products(type);
  }
  for (const auto& module : generator.modules()) {
    if (auto* mlp = module->as<TokenMlpImpl>()) mlp->join_products();
  }
}

int64_t sampling_steps(const SamplingConfig& sampling, const GeneratorConfig& config,
                       const GridShape& grid) {
  const auto steps = generator_kind(config.family).steps;
  return steps ? steps(sampling, grid) : grid.positions();
}

void check_heads(const GeneratorConfig& config, int64_t multiple) {
  if (config.heads > config.width) {
    throw UserError("generator.heads {} are more than the {} channels of generator.width",
                    config.heads, config.width);
  }
  if (multiple == 0) return;
  if (config.width % config.heads != 0) {
    throw UserError("generator.heads {} does not divide generator.width {}", config.heads,
                    config.width);
  }
  if (config.width / config.heads % multiple == 0) return;
  throw UserError(
      "generator.width {} by generator.heads {} gives heads of {} channels; positions of family {} "
      "need a multiple of {}",
      config.width, config.heads, config.width / config.heads, config.family, multiple);
}

void refuse_given(const TokenRequest& request, const char* family) {
  if (!request.given.defined()) return;
  throw UserError(
      "generator.family {} finds tokens row by row and cannot fill gaps; use a generator of family "
      "masked",
      family);
}

}  // namespace nsvq
