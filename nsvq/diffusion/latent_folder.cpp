#include "nsvq/diffusion/latent_folder.h"

#include <nlohmann/json.hpp>

#include "nsvq/core/error.h"
#include "nsvq/io/formats/contents_hash.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/tokens/token_shard.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr auto kLatentFormat = "nsvq-latents";
constexpr int kLatentVersion = 1;

LatentManifest manifest_of(const nlohmann::json& json) {
  if (json.at("format") != kLatentFormat || json.at("version") != kLatentVersion) {
    throw UserError("it is not of format {} {}", kLatentFormat, kLatentVersion);
  }
  LatentManifest manifest;
  manifest.model_sha256 = json.at("model_sha256").get<std::string>();
  for (const auto& size : json.at("shape")) {
    manifest.shape.push_back(whole_number(size, "shape", 1, 1 << 20));
  }
  if (manifest.shape.size() != 3) throw UserError("its shape is not that of an image's latents");
  manifest.source = json.at("source").get<std::string>();
  manifest.images = whole_number(json.at("images"), "images");
  manifest.shards = whole_number(json.at("shards"), "shards");
  manifest.broken = json.at("broken").get<std::vector<std::string>>();
  if (json.contains("classes")) {  // manifests of 0.1.0 may lack it
    manifest.classes = json.at("classes").get<std::vector<std::string>>();
  }
  return manifest;
}

}  // namespace

std::string latent_shard_name(int64_t number) {
  return fmt::format("latents-{:05}.safetensors", number);
}

void write_latent_shard(const fs::path& path, const LatentShard& shard) {
  TensorFile file{{{"latents", shard.latents.to(at::kBFloat16)},
                   {"classes", at::tensor(at::ArrayRef<int64_t>(shard.classes), at::kLong)},
                   {"keys", join_keys(shard.keys, path)}},
                  {}};
  add_contents_hash(file);
  write_safetensors(path, file);
}

LatentShard read_latent_shard(const fs::path& path, const std::vector<int64_t>& shape) {
  const auto file = read_safetensors(path);
  const auto damaged = [&] {
    return UserError("{}: does not hold what `nsvq encode` wrote; make the folder anew",
                     path.string());
  };
  if (!has_contents_hash(file.metadata) || !contents_hash_matches(file)) throw damaged();
  const auto tensor = [&](const char* name, at::ScalarType type, int64_t dimensions) {
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end() || found->second.scalar_type() != type ||
        found->second.dim() != dimensions) {
      throw damaged();
    }
    return found->second;
  };
  LatentShard shard;
  shard.latents = tensor("latents", at::kBFloat16, 4);
  if (shard.latents.sizes().slice(1) != at::IntArrayRef(shape)) throw damaged();
  const auto classes = tensor("classes", at::kLong, 1);
  shard.classes.assign(classes.data_ptr<int64_t>(), classes.data_ptr<int64_t>() + classes.numel());
  const int64_t images = shard.latents.size(0);
  shard.keys = split_keys(tensor("keys", at::kByte, 1), images);
  if (std::ssize(shard.keys) != images || std::ssize(shard.classes) != images) throw damaged();
  return shard;
}

std::string to_json_text(const LatentManifest& manifest) {
  const Json json = {{"format", kLatentFormat},
                     {"version", kLatentVersion},
                     {"model_sha256", manifest.model_sha256},
                     {"source", manifest.source},
                     {"shape", manifest.shape},
                     {"images", manifest.images},
                     {"shards", manifest.shards},
                     {"classes", manifest.classes},
                     {"broken", manifest.broken}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

bool is_latent_folder(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_regular_file(folder / kLatentManifest, ignored)) return false;
  try {
    const auto json = read_json(folder / kLatentManifest);
    return json.is_object() && json.value("format", nlohmann::json()) == kLatentFormat;
  } catch (const std::exception&) {
    return false;
  }
}

LatentManifest read_latent_manifest(const fs::path& folder) {
  const auto file = folder / kLatentManifest;
  if (!fs::exists(file)) {
    throw UserError("{}: holds no complete latents (no {}); `nsvq encode` makes and completes them",
                    folder.string(), kLatentManifest);
  }
  try {
    return manifest_of(read_json(file));
  } catch (const std::exception& error) {
    throw UserError("{}: no manifest of `nsvq encode`: {}", file.string(), error.what());
  }
}

}  // namespace nsvq
