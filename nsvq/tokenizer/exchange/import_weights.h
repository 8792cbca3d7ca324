#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

/// What is to be made of another program's file of weights.
struct ImportRequest {
  std::filesystem::path file;          ///< a folder will do
  std::string recipe;                  ///< describes the model; empty: names and shapes tell
  std::vector<std::string> overrides;  ///< key=value
  bool last = false;                   ///< the last weights, although there is their moving average
  /// The decoder's file, where `file` holds the encoder alone; empty for one with both.
  std::filesystem::path second = {};
};

/// A model of such weights, on the CPU.
struct ImportedModel {
  TokenizerConfig config;
  Tokenizer tokenizer{nullptr};
  std::vector<std::string> notes;  ///< what was taken, changed and dropped, a line each
};

/// Recognises the layout of the weights, infers the recipe where none is given, and takes their
/// moving average where there is one. Throws UserError for a layout that is refused or unknown, and
/// naming the tensors that are unexpected, missing or of another shape.
ImportedModel import_model(const ImportRequest& request);

}  // namespace nsvq
