#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/cli/output/json_output.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/diffusion/latent_folder.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/io/formats/safetensors_header.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokens/token_check.h"
#include "nsvq/tokens/token_manifest.h"
#include "nsvq/tokens/token_shard.h"
#include "nsvq/tokens/token_work.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// "classes 3: bee, cat, dog": the first ten.
void print_classes(const std::vector<std::string>& names) {
  constexpr size_t most = 10;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(most, names.size()); ++i) shown.push_back(printable(names[i]));
  const auto text = fmt::format("{}: {}{}", names.size(), fmt::join(shown, ", "),
                                names.size() > most ? ", ..." : "");
  fmt::print("{:12} {}\n", "classes", names.empty() ? "no names" : text);
}

/// A checkpoint has a manifest too, and a model beside it.
bool is_token_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / kTokenManifest, ignored) && !fs::exists(path / kModelFile, ignored);
}

/// A shard in its folder's manifest.
struct KnownShard {
  fs::path folder;
  TokenManifest manifest;
  ShardRecord record;
};

/// nullopt where the file's folder has no manifest that names it.
std::optional<KnownShard> known_shard(const fs::path& path) {
  const auto folder = fs::absolute(path).parent_path();
  if (!is_token_folder(folder)) return std::nullopt;
  auto manifest = read_token_manifest(folder);
  for (const auto& record : manifest.shards) {
    if (record.file == path.filename()) return KnownShard{folder, manifest, record};
  }
  return std::nullopt;
}

/// The tensor of a file's tokens; null if it is no shard.
const TensorEntry* find_tokens(const SafetensorsHeader& header) {
  const TensorEntry* tokens = nullptr;
  int known = 0;
  for (const auto& entry : header.entries) {
    if (entry.name == "tokens") tokens = &entry;
    if (entry.name == "tokens" || entry.name == "classes" || entry.name == "keys") ++known;
  }
  return known == 3 && header.entries.size() == 3 ? tokens : nullptr;
}

/// The largest number of codes whose tokens have this shard's type.
int64_t most_codes(const fs::path& path) {
  const auto header = read_safetensors_header(path);
  const auto* tokens = find_tokens(header);
  if (tokens && tokens->type == torch::kUInt8) return 1 << 8;
  if (tokens && tokens->type == torch::kUInt16) return 1 << 16;
  return int64_t{1} << 31;
}

void show_tokens(const fs::path& folder, JsonOutput& output) {
  const auto manifest = read_token_progress(folder);
  const auto& settings = manifest.settings;
  int64_t images = 0, broken = 0;
  for (const auto& shard : manifest.shards) {
    images += shard.images;
    broken += std::ssize(shard.broken);
  }
  Json json = {{"tokens", folder.string()},
               {"complete", manifest.complete},
               {"images", images},
               {"broken", broken},
               {"shards", manifest.shards.size()},
               {"codes", settings.codes},
               {"grid", {settings.grid_height, settings.grid_width}},
               {"image", {settings.image_height, settings.image_width}},
               {"dtype", token_type_name(settings.codes)},
               {"model", settings.model_sha256},
               {"data", manifest.source},
               {"shard_size", settings.shard_size},
               {"batch_size", settings.batch_size}};
  if (settings.shape().size() != 2) json["tokens_of_image"] = settings.shape();
  print_values(json);
  if (!settings.variants.empty()) {
    fmt::print("{:12} {}\n", "variants", fmt::join(settings.variants, "; "));
    json["variants"] = settings.variants;
  }
  const auto& classes = settings.classes;
  print_classes(classes);
  json["classes"] = classes;
  output.write(json);
}

/// Whether a file is a shard of tokens, by the manifest beside it or by its tensors.
bool is_token_shard(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  try {
    return known_shard(path) || find_tokens(read_safetensors_header(path)) != nullptr;
  } catch (const UserError&) {
    return false;  // opening it as a model says what is wrong
  }
}

void show_shard(const fs::path& path, JsonOutput& output) {
  const auto known = known_shard(path);
  if (known) {
    if (const auto damage = damage_of_shard(known->folder, known->record)) {
      throw UserError("{}: a shard of tokens that {}; copy it again, or make the tokens anew",
                      path.string(), *damage);
    }
  }
  const int64_t codes = known ? known->manifest.settings.codes : most_codes(path);
  const auto shard = read_token_shard(path, codes);
  Json json = {{"shard", path.string()},
               {"folder", known ? known->folder.string() : "unknown"},
               {"images", shard.keys.size()},
               {"grid", shard.tokens.sizes().slice(1).vec()},
               {"dtype", token_type_name(codes)}};
  if (!shard.keys.empty()) {
    json["first"] = shard.keys.front();
    json["last"] = shard.keys.back();
  }
  print_values(json);
  fmt::print("a shard of tokens; `nsvq info` of its folder shows all of them\n");
  output.write(json);
}

void show_latents(const fs::path& folder, JsonOutput& output) {
  const auto manifest = read_latent_manifest(folder);
  Json json = {{"latents", folder.string()},       {"images", manifest.images},
               {"broken", manifest.broken.size()}, {"shards", manifest.shards},
               {"shape", manifest.shape},          {"model", manifest.model_sha256},
               {"data", manifest.source}};
  print_values(json);
  print_classes(manifest.classes);
  json["classes"] = manifest.classes;
  output.write(json);
}

}  // namespace

bool show_tokens_or_latents(const fs::path& path, JsonOutput& output) {
  const auto show = is_latent_folder(path)  ? show_latents
                    : is_token_folder(path) ? show_tokens
                    : is_token_shard(path)  ? show_shard
                                            : nullptr;
  if (show) show(path, output);
  return show != nullptr;
}

}  // namespace nsvq
