#include "nsvq/io/token_manifest.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/file.h"
#include "nsvq/io/sha256.h"
#include "nsvq/io/token_shard.h"

namespace nsvq {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

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
  Json json = {{"format", kFormat},
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
  if (!settings.classes.empty()) json["classes"] = settings.classes;
  json["shards"] = shards;
  return json;
}

/// A file beside the manifest: a name with a folder in it would lead elsewhere.
std::string plain_name(const std::string& name) {
  if (name.empty() || name == ".." || name == "." || name.find('/') != std::string::npos) {
    throw UserError("{} is no name of a shard", quote(name));
  }
  return name;
}

TokenManifest from_json(const Json& json) {
  if (json.at("format") != kFormat) throw UserError("is no manifest of tokens");
  if (json.at("version") != kVersion) {
    throw UserError("is of format version {}; this program reads version {}",
                    json.at("version").dump(), kVersion);
  }
  const auto &model = json.at("model"), &pictures = json.at("preprocessing");
  TokenManifest manifest;
  manifest.settings = {.model_sha256 = model.at("sha256"),
                       .codes = model.at("codes"),
                       .grid_height = json.at("grid").at(0),
                       .grid_width = json.at("grid").at(1),
                       .image_height = pictures.at("height"),
                       .image_width = pictures.at("width"),
                       .images = json.at("data").at("images"),
                       .keys_sha256 = json.at("data").at("keys_sha256"),
                       .shard_size = json.at("shard_size"),
                       .batch_size = json.at("batch_size"),
                       .classes = json.value("classes", std::vector<std::string>{})};
  const auto& settings = manifest.settings;
  for (const int64_t number : {settings.codes, settings.grid_height, settings.grid_width,
                               settings.shard_size, settings.batch_size}) {
    if (number < 1) throw UserError("holds the number {} where at least 1 is due", number);
  }
  manifest.source = json.at("data").at("source");
  manifest.complete = json.at("complete");
  for (const auto& shard : json.at("shards")) {
    manifest.shards.push_back({plain_name(shard.at("file")), shard.at("images"), shard.at("bytes"),
                               shard.at("sha256"), shard.at("broken")});
  }
  return manifest;
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
  const auto text = read_text(path);
  try {
    return from_json(Json::parse(text));
  } catch (const Json::exception&) {
    throw UserError("{}: cannot be read (damaged, or not a manifest of tokens)", path.string());
  } catch (const UserError& error) {
    throw UserError("{}: {}", path.string(), error.what());
  }
}

namespace {

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
