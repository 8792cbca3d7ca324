#pragma once

#include <filesystem>

#include "nsvq/diffusion/diffusion_model.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

/// Writes a folder that samples by itself, whole or not at all:
///   model.safetensors                the network with the latents' mean and deviation
///   config.json                      its settings
///   tokenizer/model.safetensors      the tokenizer
///   tokenizer/config.json            its settings
///   scheduler/scheduler_config.json  the noise schedule, as diffusers names it
/// Throws UserError if the folder exists.
void export_diffusion(const LoadedDiffusion& model, const LoadedModel& tokenizer,
                      const std::filesystem::path& folder);

}  // namespace nsvq
