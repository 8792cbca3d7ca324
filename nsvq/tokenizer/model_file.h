#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "nsvq/io/formats/json.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/recipe/run_kind.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/settings/option_table.h"
#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

/// Format of the model files that this program writes (metadata "nsvq.format"). Files of every
/// earlier format open too: open_model_file (open_model.h) converts them.
constexpr int kModelFormat = 2;

/// A model as its file holds it: weights with the configuration that describes them and a hash of
/// both (nsvq/io/formats/contents_hash.h). `metadata` is added to the file's own.
TensorFile model_contents(const TensorMap& tensors, const TokenizerConfig& config,
                          const std::map<std::string, std::string>& metadata = {});
void write_model(const std::filesystem::path& file, const TensorMap& tensors,
                 const TokenizerConfig& config,
                 const std::map<std::string, std::string>& metadata = {});

/// Makes a file that was read as it is one of the present format; errors call it `path`. Throws
/// UserError for a file that was written by a later version of the program.
void convert_to_present_format(TensorFile& file, const std::filesystem::path& path);

/// Hash of all weights, by which tokens identify their model.
std::string model_sha256(const Tokenizer& tokenizer);

/// All settings as JSON, nested by section as in a recipe.
Json settings_to_json(const OptionTable& table);

}  // namespace nsvq
