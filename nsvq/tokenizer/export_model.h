#pragma once

#include <filesystem>

#include "nsvq/tokenizer/model_file.h"

namespace nsvq {

/// Writes a model for other programs: `file`, whose name ends in .safetensors, with weights and
/// metadata, and beside it a .json with every setting by section and the model's sha256 and stride.
/// Returns the .json. Throws UserError for another ending.
std::filesystem::path export_model(const LoadedModel& model, const std::filesystem::path& file);

}  // namespace nsvq
