#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/generation/generator.h"
#include "nsvq/recipe/classes.h"
#include "nsvq/recipe/run_config.h"
#include "nsvq/recipe/run_kind.h"
#include "nsvq/settings/option_table.h"

namespace nsvq {

/// Every setting of a run that trains a generator of tokens.
struct GenerationConfig : RunConfig {
  static constexpr auto kind = RunKind::generator;

  GenerationConfig();

  GeneratorConfig generator;
  SamplingConfig sampling;
  std::string tokenizer;
  std::string tokens, token_classes;
  std::string tokens_in = "memory";
  std::string val_tokens, val_token_classes;
  int64_t codes = 0;
  int64_t classes = 0;

  ToldClasses told() const { return {classes, generator.label_dropout, "generator"}; }
};

/// The table of all settings, bound to the fields of `config`.
OptionTable option_table(GenerationConfig& config);

/// `config` with paths that do not depend on the current folder; those of generator.* without dots.
GenerationConfig with_absolute_paths(GenerationConfig config);

/// The settings that matter most or differ from the defaults, for the log.
std::string summarize_settings(const GenerationConfig& config);

/// The setting that names what is trained on: generator.tokens or data.train.
std::string training_data_key(const GenerationConfig& config);

/// Throws UserError when settings that are valid one by one contradict each other.
void check_generation_settings(const GenerationConfig& config);

/// Whether a setting decides which tensors a generator has and what they mean.
bool decides_generator(const std::string& key);

/// Words key=value of a command line, in which tokens=, tokenizer= and the other settings of
/// generator.* that say what is learned may stand without their section.
std::vector<std::string> with_sections(std::vector<std::string> words);

}  // namespace nsvq
