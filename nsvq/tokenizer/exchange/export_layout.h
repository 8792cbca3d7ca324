#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/core/tensor_map.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

/// Programs in whose layout a model can be written: taming, llamagen, diffusers.
std::vector<std::string> layouts_to_write();

/// A model's tensors by the names of such a program, in its shapes. Throws UserError where the
/// program has no such network or does not choose tokens so.
TensorMap with_their_names(const LoadedModel& model, const std::string& program);

/// The files of a model in a program's layout: FILE.safetensors; for diffusers those in the folder
/// `out`. Throws UserError for another ending.
std::vector<std::filesystem::path> files_in_layout(const std::string& program,
                                                   const std::filesystem::path& out);
/// Writes them.
void write_in_layout(const LoadedModel& model, const std::string& program,
                     const std::filesystem::path& out);

}  // namespace nsvq
