#include "nsvq/tokens/token_manifest.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/tokens/token_shard.h"

namespace nsvq {

namespace fs = std::filesystem;
using nlohmann::json;
namespace {

constexpr auto kFormat = "nsvq-tokens";
/// The second has scales, groups or variants; plain tokens are written as the first.
constexpr int kVersion = 1, kLastVersion = 2;

Json to_json(const ShardRecord& shard) {
  return {{"file", shard.file},
          {"images", shard.images},
          {"bytes", shard.bytes},
          {"sha256", shard.sha256},
          {"broken", shard.broken}};
}

Json data_to_json(const TokenManifest& manifest) {
  Json data = {{"source", manifest.source},
               {"images", manifest.settings.images},
               {"keys_sha256", manifest.settings.keys_sha256}};
  for (const auto& part : manifest.joined) {
    data["joined"].push_back(
        {{"source", part.source}, {"images", part.images}, {"keys_sha256", part.keys_sha256}});
  }
  return data;
}

bool is_plain(const TokenSettings& settings) {
  return settings.scales.empty() && settings.groups == 1 && settings.variants.empty();
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
              {"version", is_plain(settings) ? kVersion : kLastVersion},
              {"complete", manifest.complete},
              {"images", images},
              {"broken", broken},
              {"dtype", token_type_name(settings.codes)},
              {"grid", {settings.grid_height, settings.grid_width}}};
  for (const auto& grid : settings.scales)
    all["grids"].push_back(Json::array({grid.height, grid.width}));
  if (settings.groups > 1) all["groups"] = settings.groups;
  if (!settings.variants.empty()) all["variants"] = settings.variants;
  const Json rest = {{"model", {{"sha256", settings.model_sha256}, {"codes", settings.codes}}},
                     {"preprocessing",
                      {{"resize", "bilinear, antialiased, to cover"},
                       {"crop", "center"},
                       {"height", settings.image_height},
                       {"width", settings.image_width},
                       {"values", "x / 127.5 - 1"}}},
                     {"data", data_to_json(manifest)},
                     {"shard_size", settings.shard_size},
                     {"batch_size", settings.batch_size}};
  all.update(rest);
  if (!settings.classes.empty()) all["classes"] = settings.classes;
  all["shards"] = shards;
  return all;
}

/// Checks that a shard's name is a plain file name: one with a folder in it would lead elsewhere.
std::string plain_name(const std::string& name) {
  if (name.empty() || name == ".." || name == "." || name.find('/') != std::string::npos) {
    throw UserError("{} is no name of a shard", quote(name));
  }
  return name;
}

ShardRecord shard_from_json(const json& shard) {
  return {plain_name(shard.at("file")), whole_number(shard.at("images"), "images", 0, INT32_MAX),
          static_cast<uint64_t>(whole_number(shard.at("bytes"), "bytes")), shard.at("sha256"),
          shard.at("broken")};
}

/// Checks figures that follow from the rest and are written for other programs.
void require_own_figures(const TokenManifest& manifest, const json& all) {
  const json own = to_json(manifest);
  for (const char* key : {"images", "broken", "dtype"}) {
    if (!all.contains(key) || all.at(key) == own.at(key)) continue;
    throw UserError("'{}' is {}, where its shards and codes make it {}", key,
                    shown_json(all.at(key)), shown_json(own.at(key)));
  }
}

/// What plain tokens do not have.
void read_dimensions(TokenSettings& settings, const json& all) {
  constexpr int64_t most = 65536;  // of each size, and of tokens in them
  for (const auto& grid : all.value("grids", json::array())) {
    settings.scales.push_back(
        {whole_number(grid.at(0), "grids", 1, most), whole_number(grid.at(1), "grids", 1, most)});
  }
  settings.groups = whole_number(all.value("groups", json(1)), "groups", 1, most);
  settings.variants = all.value("variants", std::vector<std::string>{});
  if (is_plain(settings)) return;
  double tokens = 1;
  for (const int64_t size : settings.shape()) tokens *= static_cast<double>(size);
  if (tokens > static_cast<double>(most) * most) {
    throw UserError("is of {} tokens an image, more than any program makes", tokens);
  }
}

TokenManifest from_json(const json& all) {
  if (all.at("format") != kFormat) throw UserError("is no manifest of tokens");
  if (all.at("version") != kVersion && all.at("version") != kLastVersion) {
    throw UserError("is of format version {}; this program reads versions {} and {}",
                    shown_json(all.at("version")), kVersion, kLastVersion);
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
  read_dimensions(manifest.settings, all);
  manifest.source = all.at("data").at("source");
  manifest.complete = all.at("complete");
  std::set<std::string> names;
  for (const auto& shard : all.at("shards")) {
    manifest.shards.push_back(shard_from_json(shard));
    const auto& name = manifest.shards.back().file;
    if (!names.insert(name).second) throw UserError("names the shard {} twice", quote(name));
  }
  int64_t left = manifest.settings.images;
  for (const auto& part : all.at("data").value("joined", json::array())) {
    // At most the images left, so that no sum overflows.
    manifest.joined.push_back({part.at("source"),
                               whole_number(part.at("images"), "images of data.joined", 0, left),
                               part.at("keys_sha256")});
    left -= manifest.joined.back().images;
  }
  if (!manifest.joined.empty() && left != 0) {
    throw UserError("data.joined has {} images fewer than data.images says", left);
  }
  require_own_figures(manifest, all);
  return manifest;
}

/// The first of two lists of names, each of an `item`, that differs.
std::string compare_names(const std::string& list, const std::string& item,
                          const std::vector<std::string>& here,
                          const std::vector<std::string>& there) {
  if (here == there) return "";
  const auto first = std::mismatch(here.begin(), here.end(), there.begin(), there.end()).first;
  const auto name = [&](const auto& names) {
    const size_t at = first - here.begin();
    return at < names.size() ? quote(names[at]) : "none";
  };
  return fmt::format("{} ({} {} is {} here, {} there)", list, item, first - here.begin(),
                     name(here), name(there));
}

/// Manifests of earlier versions lack names of classes, which then count as equal.
std::string compare_classes(const TokenSettings& here, const TokenSettings& there) {
  if (here.classes.empty() || there.classes.empty()) return "";
  return compare_names("names of classes", "class", here.classes, there.classes);
}

std::string shown_scales(const TokenSettings& settings) {
  std::vector<std::string> sizes;
  for (const auto& grid : settings.grids()) {
    sizes.push_back(fmt::format("{}x{}", grid.height, grid.width));
  }
  return fmt::format("{}", fmt::join(sizes, " "));
}

/// Replaces invalid UTF-8, which names of files may contain and JSON may not.
std::string text_of(const Json& all) {
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Applies `read` to a file's JSON; errors name the file.
template <typename Read>
auto read_named(const fs::path& path, const Read& read) {
  const auto all = read_json(path);
  try {
    return read(all);
  } catch (const json::exception&) {
    throw UserError("{}: cannot be read (damaged, or not a manifest of tokens)", path.string());
  } catch (const UserError& error) {
    throw UserError("{}: {}", path.string(), error.what());
  }
}

}  // namespace

std::vector<TokenGrid> TokenSettings::grids() const {
  return scales.empty() ? std::vector<TokenGrid>{{grid_height, grid_width}} : scales;
}

std::vector<int64_t> TokenSettings::shape() const {
  std::vector<int64_t> sizes;
  if (!variants.empty()) sizes.push_back(std::ssize(variants));
  if (groups > 1) sizes.push_back(groups);
  if (scales.empty()) {
    sizes.insert(sizes.end(), {grid_height, grid_width});
  } else {
    sizes.push_back(tokens_in(scales));
  }
  return sizes;
}

void write_token_manifest(const fs::path& folder, const TokenManifest& manifest) {
  write_text(folder / kTokenManifest, text_of(to_json(manifest)));
}

bool create_token_manifest(const fs::path& folder, const TokenManifest& manifest) {
  const auto text = text_of(to_json(manifest));
  AtomicFile file(folder / kTokenManifest);
  file.write(std::as_bytes(std::span(text)));
  return file.commit_if_new();
}

void write_shard_record(const fs::path& path, const ShardRecord& record) {
  write_text(path, text_of(to_json(record)));
}

ShardRecord read_shard_record(const fs::path& path) { return read_named(path, shard_from_json); }

TokenManifest read_token_manifest(const fs::path& folder) {
  const auto path = folder / kTokenManifest;
  if (!path_exists(folder)) throw UserError("{}: no such folder", folder.string());
  if (!path_exists(path)) {
    throw UserError("{}: holds no {}; is it a folder of `nsvq tokenize`?", folder.string(),
                    kTokenManifest);
  }
  return read_named(path, from_json);
}

std::optional<TokenDifference> difference(const TokenSettings& here, const TokenSettings& there) {
  const auto compare = [](const char* name, const auto& a, const auto& b) -> TokenDifference {
    return {a == b ? "" : fmt::format("{} ({} here, {} there)", name, a, b)};
  };
  const auto size = [](int64_t height, int64_t width) {
    return fmt::format("{}x{}", height, width);
  };
  const std::vector<TokenDifference> found = {
      compare("model", here.model_sha256.substr(0, 12), there.model_sha256.substr(0, 12)),
      compare("codes", here.codes, there.codes),
      compare("image size", size(here.image_height, here.image_width),
              size(there.image_height, there.image_width)),
      compare("grid", size(here.grid_height, here.grid_width),
              size(there.grid_height, there.grid_width)),
      compare("grids", shown_scales(here), shown_scales(there)),
      compare("groups of codes", here.groups, there.groups),
      {.text = compare_names("variants of images", "variant", here.variants, there.variants)},
      compare("number of images", here.images, there.images),
      compare("names of images", here.keys_sha256.substr(0, 12), there.keys_sha256.substr(0, 12)),
      {.text = compare_classes(here, there), .of_classes = true},
      compare("shard size", here.shard_size, there.shard_size),
      compare("batch size", here.batch_size, there.batch_size)};
  const auto first = std::find_if(found.begin(), found.end(),
                                  [](const auto& setting) { return !setting.text.empty(); });
  if (first == found.end()) return std::nullopt;
  return *first;
}

}  // namespace nsvq
