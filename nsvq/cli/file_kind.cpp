#include "nsvq/cli/file_kind.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "nsvq/core/error.h"
#include "nsvq/core/lower_case.h"
#include "nsvq/io/safetensors_header.h"
#include "nsvq/metrics/per_image.h"

namespace nsvq {

namespace {

std::string beginning_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(64, '\0');
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

bool is_safetensors(const std::string& file) {
  try {
    read_safetensors_header(file);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

bool is_image_table(const std::string& file) { return is_per_image_file(file); }

struct KnownKind {
  const char* words;
  bool (*is_kind)(const std::string& file);
};

KnownKind known_kind(FileKind kind) {
  switch (kind) {
    case FileKind::exported_settings:
      return {"the settings of an exported model", is_exported_settings};
    case FileKind::html:
      return {"an HTML page", is_html};
    case FileKind::image_table:
      return {"a table of images", is_image_table};
    case FileKind::json:
      return {"JSON of figures", is_json};
    case FileKind::npz:
      return {"an .npz file", is_npz};
    case FileKind::picture:
      return {"a PNG or JPEG picture", is_picture};
    case FileKind::safetensors:
      return {"a safetensors file", is_safetensors};
    case FileKind::svg:
      return {"an SVG picture", is_svg};
  }
  throw std::logic_error("unknown kind of file");
}

}  // namespace

std::string describe(FileKind kind) { return known_kind(kind).words; }

bool is_of_kind(const std::string& file, FileKind kind) { return known_kind(kind).is_kind(file); }

}  // namespace nsvq
