#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "nsvq/generation/config.h"
#include "nsvq/generation/generator.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/nn/named_tensors.h"
#include "nsvq/tokenizer/frozen_tokenizer.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

/// What a generator's file says beside its weights.
struct GeneratorDescription {
  GenerationConfig config;
  GridShape grid;
  TokenizerReference tokenizer;  ///< empty: tokens of files, which no tokenizer decodes
};

/// A generator as its file holds it. `metadata` is added to the file's own.
TensorFile generator_contents(const TensorMap& tensors, const GeneratorDescription& description,
                              const std::map<std::string, std::string>& metadata = {});

/// What a file's metadata say. Throws UserError calling it `from`.
GeneratorDescription generator_metadata(const TensorFile& file, const std::string& from);

/// Whether a model file is one of a generator.
bool is_generator(const TensorFile& file);

/// A generator with the settings it was trained with, on the CPU.
struct LoadedGenerator : GeneratorDescription {
  std::shared_ptr<Generator> generator;
  std::filesystem::path file;
};

/// Opens what a user names: a run's folder, a checkpoint folder, an exported folder or a model
/// file. Throws UserError, also for one that is no generator.
LoadedGenerator load_generator(const std::filesystem::path& run_or_checkpoint);

/// Moves a generator to a device and sets its precision.
void move_to_device(Generator& generator, const GenerationConfig& config, c10::Device device);

/// Writes a folder that samples by itself, whole or not at all:
///   model.safetensors              the network
///   config.json                    its settings
///   tokenizer/                     the tokenizer and its settings, if there is one
/// Throws UserError if the folder exists.
void export_generator(const LoadedGenerator& generator, const LoadedModel* tokenizer,
                      const std::filesystem::path& folder);

}  // namespace nsvq
