#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/io/formats/json.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

/// The files that an export of this name consists of: FILE.safetensors with weights and metadata,
/// FILE.json with every setting by section and the model's sha256 and stride, and load_FILE.py,
/// which loads both in PyTorch (pytorch_model.py). Throws UserError for another ending.
std::vector<std::filesystem::path> exported_files(const std::filesystem::path& file);

/// Writes a model for other programs, as these files.
void export_model(const LoadedModel& model, const std::filesystem::path& file);

/// What FILE.json holds.
Json exported_settings(const LoadedModel& model);
/// The text of load_FILE.py.
std::string exported_loader();

}  // namespace nsvq
