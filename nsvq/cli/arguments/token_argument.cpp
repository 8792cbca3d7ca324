#include "nsvq/cli/arguments/token_argument.h"

#include <filesystem>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/image_names.h"
#include "nsvq/diffusion/latent_folder.h"
#include "nsvq/io/formats/safetensors_header.h"
#include "nsvq/recipe/run_kind.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokens/token_manifest.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

bool is_model_file(const fs::path& file) {
  if (file.extension() != ".safetensors") return false;
  try {
    return read_safetensors_header(file).metadata.contains(kModelConfigKey);
  } catch (const UserError&) {
    return false;  // reading its tokens says what is wrong
  }
}

/// Whether images or tar shards are among the first files below a folder.
bool holds_images(const fs::path& folder) {
  constexpr int most = 1000;
  int seen = 0;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator() && seen++ < most; at.increment(error)) {
    const auto name = at->path().filename().string();
    if (is_image_name(name) || is_shard_name(name)) return true;
  }
  return false;
}

/// What a folder without a manifest of tokens holds; empty if unknown.
std::string describe_folder(const fs::path& folder) {
  std::error_code ignored;
  if (holds_run(folder)) return "a run";
  if (fs::exists(folder / kModelFile, ignored)) return "a model";
  if (fs::exists(folder / latent_shard_name(0), ignored)) return "latents of nsvq encode";
  if (fs::exists(folder / kTokenManifest, ignored)) return "";
  return holds_images(folder) ? "a folder of images" : "";
}

std::string describe_file(const fs::path& file) {
  const auto name = file.filename().string();
  if (is_shard_name(name)) return "an image tar";
  if (is_image_name(name)) return "a picture";
  if (is_model_file(file)) return "a model";
  return file.extension() == ".yaml" ? "a recipe" : "";
}

}  // namespace

void require_tokens_named(const std::string& name) {
  std::error_code ignored;
  const bool folder = fs::is_directory(name, ignored);
  if (!folder && !fs::is_regular_file(name, ignored)) return;
  const auto what = folder ? describe_folder(name) : describe_file(name);
  if (what.empty()) return;
  const auto word = shown_shell_word(name);
  const bool images = what == "an image tar" || what == "a picture" || what == "a folder of images";
  const bool model = what == "a run" || what == "a model";
  throw UserError("{}: {}, no tokens; {}nsvq tokenize {} --data {} --out DIR", name, what,
                  images ? "tokenize it first: " : "tokens are made by ", model ? word : "MODEL",
                  images ? word : "IMAGES");
}

}  // namespace nsvq
