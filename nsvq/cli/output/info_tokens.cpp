#include "nsvq/cli/output/info_tokens.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "nsvq/cli/output/info_lines.h"
#include "nsvq/core/error.h"
#include "nsvq/io/formats/safetensors_header.h"
#include "nsvq/tokens/token_check.h"
#include "nsvq/tokens/token_manifest.h"
#include "nsvq/tokens/token_shard.h"
#include "nsvq/tokens/token_work.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// What the folder of a shard says of it.
struct KnownShard {
  fs::path folder;
  TokenManifest manifest;
  ShardRecord record;
};

/// Empty where the file's folder has no manifest that names it.
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

/// The largest number of codes whose tokens are of the type that this shard's are.
int64_t most_codes(const fs::path& path) {
  const auto header = read_safetensors_header(path);
  const auto* tokens = find_tokens(header);
  if (tokens && tokens->type == torch::kUInt8) return 1 << 8;
  if (tokens && tokens->type == torch::kUInt16) return 1 << 16;
  return int64_t{1} << 31;
}

}  // namespace

/// A checkpoint has a manifest too, and a model beside it.
bool is_token_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / kTokenManifest, ignored) &&
         !fs::exists(path / "model.safetensors", ignored);
}

void show_tokens(const fs::path& folder, JsonOutput& output) {
  const auto manifest = read_token_progress(folder);
  const auto& settings = manifest.settings;
  int64_t images = 0, broken = 0;
  for (const auto& shard : manifest.shards) {
    images += shard.images;
    broken += std::ssize(shard.broken);
  }
  nlohmann::ordered_json json = {{"tokens", folder.string()},
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
  print_values(json);
  const auto& classes = settings.classes;
  print_classes(classes);
  json["classes"] = classes;
  output.write(json);
}

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
  nlohmann::ordered_json json = {{"shard", path.string()},
                                 {"folder", known ? known->folder.string() : "unknown"},
                                 {"images", shard.keys.size()},
                                 {"grid", {shard.tokens.size(1), shard.tokens.size(2)}},
                                 {"dtype", token_type_name(codes)}};
  if (!shard.keys.empty()) {
    json["first"] = shard.keys.front();
    json["last"] = shard.keys.back();
  }
  print_values(json);
  fmt::print("a shard of tokens; `nsvq info` of its folder shows the whole\n");
  output.write(json);
}

}  // namespace nsvq
