#include "nsvq/cli/arguments/file_kind.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/formats/safetensors_header.h"
#include "nsvq/metrics/per_image.h"

namespace nsvq {

namespace {

std::string beginning_of(const std::string& file, size_t bytes = 64) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(bytes, '\0');
  stream.read(text.data(), std::ssize(text));
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

/// In lower case, without blanks in front.
std::string first_tag(const std::string& file) {
  const auto text = lower_case(beginning_of(file));
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

bool is_html(const std::string& file) { return first_tag(file).starts_with("<!doctype html"); }

bool is_svg(const std::string& file) {
  const auto tag = first_tag(file);
  return tag.starts_with("<svg") || tag.starts_with("<?xml");
}

/// Discarded if the file holds no JSON.
nlohmann::json json_in(const std::string& file) {
  std::ifstream stream(file);
  return nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
}

/// JSON, but not a manifest of tokens or latents or the record of a folder, which have a format by
/// name and are needed to read the folder.
bool is_json(const std::string& file) {
  const auto json = json_in(file);
  if (!json.is_object() || !json.contains("format")) return !json.is_discarded();
  const auto& format = json["format"];
  return !format.is_string() || !format.get<std::string>().starts_with("nsvq-");
}

/// What `nsvq export` writes beside the weights.
bool is_exported_settings(const std::string& file) {
  const auto json = json_in(file);
  const auto own = json.is_object() ? json.find("nsvq") : json.end();
  return json.is_object() && own != json.end() && own->is_object() && own->contains("sha256");
}

bool is_npz(const std::string& file) { return beginning_of(file).starts_with("PK"); }

bool is_picture(const std::string& file) {
  const auto text = beginning_of(file);
  return text.starts_with("\x89PNG\r\n\x1a\n") || text.starts_with("\xff\xd8\xff");
}

/// Tensors of a safetensors file; none of any other.
std::vector<TensorEntry> tensors_in(const std::string& file) {
  try {
    return read_safetensors_header(file).entries;
  } catch (const UserError&) {
    return {};
  }
}

/// What `nsvq codebook` writes: one tensor.
bool is_codebook(const std::string& file) { return tensors_in(file).size() == 1; }

/// Weights, and not a shard of tokens or latents, which names its images.
bool is_model(const std::string& file) {
  const auto tensors = tensors_in(file);
  const auto names_images = [](const TensorEntry& one) { return one.name == "keys"; };
  return tensors.size() > 1 && std::ranges::none_of(tensors, names_images);
}

bool is_tar(const std::string& file) {
  constexpr size_t kMagic = 257;  // where the format's name stands
  return beginning_of(file, kMagic + 5).ends_with("ustar");
}

bool is_image_table(const std::string& file) { return is_per_image_file(file); }

struct KnownKind {
  const char* words;
  bool (*is_kind)(const std::string& file);
};

KnownKind known_kind(FileKind kind) {
  switch (kind) {
    case FileKind::codebook:
      return {"a codebook", is_codebook};
    case FileKind::exported_settings:
      return {"the settings of an exported model", is_exported_settings};
    case FileKind::html:
      return {"an HTML page", is_html};
    case FileKind::image_table:
      return {"a table of images", is_image_table};
    case FileKind::json:
      return {"JSON of figures", is_json};
    case FileKind::model:
      return {"a model's weights", is_model};
    case FileKind::npz:
      return {"an .npz file", is_npz};
    case FileKind::picture:
      return {"a PNG or JPEG picture", is_picture};
    case FileKind::svg:
      return {"an SVG picture", is_svg};
    case FileKind::tar:
      return {"a tar archive", is_tar};
  }
  throw std::logic_error("unknown kind of file");
}

}  // namespace

std::string describe(FileKind kind) { return known_kind(kind).words; }

bool is_of_kind(const std::string& file, FileKind kind) { return known_kind(kind).is_kind(file); }

}  // namespace nsvq
