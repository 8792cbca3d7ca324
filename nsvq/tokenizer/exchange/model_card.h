#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

/// The files of a folder as Hugging Face's hub shows it: model.safetensors, config.json with every
/// setting, load_model.py, which loads both in PyTorch, and README.md, the model card.
std::vector<std::filesystem::path> files_of_card(const std::filesystem::path& folder);

/// Writes them. `figures`: a file of `nsvq eval --json`, or empty. Throws UserError where it holds
/// no figures.
void write_card(const LoadedModel& model, const std::filesystem::path& folder,
                const std::filesystem::path& figures);

/// The text of README.md; `name` is its title.
std::string model_card(const LoadedModel& model, const std::string& name,
                       const std::filesystem::path& figures);

}  // namespace nsvq
