#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "nsvq/io/formats/json.h"
#include "nsvq/settings/option_table.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

/// All settings as JSON, nested by section as in a recipe.
Json settings_to_json(const OptionTable& table);

/// Writes a model for other programs: `file`, whose name ends in .safetensors, with weights and
/// metadata, and beside it a .json with every setting by section and the model's sha256 and stride.
/// Returns the .json. Throws UserError for another ending.
std::filesystem::path export_model(const LoadedModel& model, const std::filesystem::path& file);

}  // namespace nsvq
