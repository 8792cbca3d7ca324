#include "nsvq/io/token_manifest.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/file.h"
#include "nsvq/io/input_file.h"
#include "nsvq/io/json.h"
#include "nsvq/io/sha256.h"
#include "nsvq/io/token_shard.h"

namespace nsvq {

namespace fs = std::filesystem;
using nlohmann::json;
using Json = nlohmann::ordered_json;  // as written

namespace {

constexpr auto kFormat = "nsvq-tokens";
constexpr int kVersion = 1;

Json to_json(const ShardRecord& shard) {
  return {{"file", shard.file},
          {"images", shard.images},
          {"bytes", shard.bytes},
          {"sha256", shard.sha256},
          {"broken", shard.broken}};
}

Json to_json(const TokenManifest& manifest) {
  const auto& settings = manifest.settings;
  int64_t images = 0, broken = 0;
  Json shards = Json::array();
  for (const auto& shard : manifest.shards) {
    images += shard.images;
    broken += std::ssize(shard.broken);
    shards.push_back(to_json(shard));
  }
  Json all = {{"format", kFormat},
              {"version", kVersion},
              {"complete", manifest.complete},
              {"images", images},
              {"broken", broken},
              {"dtype", token_type_name(settings.codes)},
              {"grid", {settings.grid_height, settings.grid_width}},
              {"model", {{"sha256", settings.model_sha256}, {"codes", settings.codes}}},
              {"preprocessing",
               {{"resize", "bilinear, antialiased, to cover"},
                {"crop", "center"},
                {"height", settings.image_height},
                {"width", settings.image_width},
                {"values", "x / 127.5 - 1"}}},
              {"data",
               {{"source", manifest.source},
                {"images", settings.images},
                {"keys_sha256", settings.keys_sha256}}},
              {"shard_size", settings.shard_size},
              {"batch_size", settings.batch_size}};
  if (!settings.classes.empty()) all["classes"] = settings.classes;
  all["shards"] = shards;
  return all;
}

/// A file beside the manifest: a name with a folder in it would lead elsewhere.
std::string plain_name(const std::string& name) {
  if (name.empty() || name == ".." || name == "." || name.find('/') != std::string::npos) {
    throw UserError("{} is no name of a shard", quote(name));
  }
  return name;
}

ShardRecord shard_from_json(const json& shard) {
  return {plain_name(shard.at("file")), whole_number(shard.at("images"), "images"),
          static_cast<uint64_t>(whole_number(shard.at("bytes"), "bytes")), shard.at("sha256"),
          shard.at("broken")};
}

TokenManifest from_json(const json& all) {
  if (all.at("format") != kFormat) throw UserError("is no manifest of tokens");
  if (all.at("version") != kVersion) {
    throw UserError("is of format version {}; this program reads version {}",
                    shown_json(all.at("version")), kVersion);
  }
  const auto &model = all.at("model"), &pictures = all.at("preprocessing");
  const auto number = [](const json& object, const char* name, int64_t least = 1) {
    return whole_number(object.at(name), name, least, INT32_MAX);
  };
  TokenManifest manifest;
  manifest.settings = {.model_sha256 = model.at("sha256"),
                       .codes = number(model, "codes"),
                       .grid_height = whole_number(all.at("grid").at(0), "grid", 1, INT32_MAX),
                       .grid_width = whole_number(all.at("grid").at(1), "grid", 1, INT32_MAX),
                       .image_height = number(pictures, "height"),
                       .image_width = number(pictures, "width"),
                       .images = whole_number(all.at("data").at("images"), "images"),
                       .keys_sha256 = all.at("data").at("keys_sha256"),
                       .shard_size = whole_number(all.at("shard_size"), "shard_size", 1),
                       .batch_size = number(all, "batch_size"),
                       .classes = all.value("classes", std::vector<std::string>{})};
  manifest.source = all.at("data").at("source");
  manifest.complete = all.at("complete");
  for (const auto& shard : all.at("shards")) manifest.shards.push_back(shard_from_json(shard));
  return manifest;
}

/// Manifests of earlier versions have no names, which says nothing about them.
std::string compare_classes(const std::vector<std::string>& here,
                            const std::vector<std::string>& there) {
  if (here.empty() || there.empty() || here == there) return "";
  const auto first = std::mismatch(here.begin(), here.end(), there.begin(), there.end()).first;
  const auto name = [&](const auto& names) {
    const size_t at = first - here.begin();
    return at < names.size() ? quote(names[at]) : "none";
  };
  return fmt::format("names of classes (class {} is {} here, {} there)", first - here.begin(),
                     name(here), name(there));
}

}  // namespace

void write_token_manifest(const fs::path& folder, const TokenManifest& manifest) {
  // Names of files need not be UTF-8; JSON must be.
  write_text(folder / kTokenManifest,
             to_json(manifest).dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

TokenManifest read_token_manifest(const fs::path& folder) {
  const auto path = folder / kTokenManifest;
  if (!fs::exists(path)) {
    throw UserError("{}: holds no {}; is it a folder of `nsvq tokenize`?", folder.string(),
                    kTokenManifest);
  }
  const auto all = read_json(path);
  try {
    return from_json(all);
  } catch (const json::exception&) {
    throw UserError("{}: cannot be read (damaged, or not a manifest of tokens)", path.string());
  } catch (const UserError& error) {
    throw UserError("{}: {}", path.string(), error.what());
  }
}

std::optional<std::string> difference(const TokenSettings& here, const TokenSettings& there) {
  const auto compare = [](const char* name, const auto& a, const auto& b) {
    return a == b ? std::string() : fmt::format("{} ({} here, {} there)", name, a, b);
  };
  const auto size = [](int64_t height, int64_t width) {
    return fmt::format("{}x{}", height, width);
  };
  const std::vector<std::string> found = {
      compare("model", here.model_sha256.substr(0, 12), there.model_sha256.substr(0, 12)),
      compare("codes", here.codes, there.codes),
      compare("image size", size(here.image_height, here.image_width),
              size(there.image_height, there.image_width)),
      compare("grid", size(here.grid_height, here.grid_width),
              size(there.grid_height, there.grid_width)),
      compare("number of images", here.images, there.images),
      compare("names of images", here.keys_sha256.substr(0, 12), there.keys_sha256.substr(0, 12)),
      compare_classes(here.classes, there.classes),
      compare("shard size", here.shard_size, there.shard_size),
      compare("batch size", here.batch_size, there.batch_size)};
  const auto first = std::find_if(found.begin(), found.end(), std::not_fn(&std::string::empty));
  if (first == found.end()) return std::nullopt;
  return *first;
}

ShardRecord describe_shard(const fs::path& path) {
  const InputFile file(path);
  std::vector<std::byte> piece(1 << 20);
  Sha256 hash;
  for (uint64_t at = 0; at < file.size(); at += piece.size()) {
    const auto bytes = std::span(piece).first(std::min<uint64_t>(piece.size(), file.size() - at));
    file.read(at, bytes);
    hash.add(bytes);
  }
  ShardRecord record;
  record.file = path.filename().string();
  record.bytes = file.size();
  record.sha256 = hash.hex();
  return record;
}

std::optional<std::string> damage_of_shard(const fs::path& folder, const ShardRecord& record) {
  const auto path = folder / record.file;
  if (!fs::exists(path)) return "is missing";
  const auto found = describe_shard(path);
  if (found.bytes != record.bytes) {
    return fmt::format("has {} bytes where {} were written", found.bytes, record.bytes);
  }
  if (found.sha256 != record.sha256) return "does not hold what was written";
  return std::nullopt;
}

}  // namespace nsvq
