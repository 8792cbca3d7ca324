#include "nsvq/io/files/folder_checksums.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/io/files/crc32c.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/io/formats/json.h"

namespace nsvq {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr auto kName = "manifest.json";

json describe_file(const fs::path& path) {
  const InputFile file(path);
  std::vector<std::byte> piece(1 << 20);
  uint32_t crc = 0;
  for (uint64_t at = 0; at < file.size(); at += piece.size()) {
    const auto size = std::min<uint64_t>(piece.size(), file.size() - at);
    file.read(at, std::span(piece).first(size));
    crc = crc32c(std::span(piece).first(size), crc);
  }
  return {{"bytes", file.size()}, {"crc32c", fmt::format("{:08x}", crc)}};
}

enum class Compared { lengths, contents };

std::string compare(const fs::path& path, const json& expected, Compared by) {
  std::error_code ignored;  // an overlong name, for instance
  if (!fs::exists(path, ignored)) return "is missing";
  const auto found =
      by == Compared::contents ? describe_file(path) : json{{"bytes", InputFile(path).size()}};
  if (found.at("bytes") != expected.at("bytes")) {
    return fmt::format("has {} bytes where {} were written", shown_json(found.at("bytes")),
                       shown_json(expected.at("bytes")));
  }
  const bool equal = by == Compared::lengths || found == expected;
  return equal ? "" : "does not hold what was written";
}

/// Compares the file named `only`, or all files if it is empty. Throws if the manifest is
/// unreadable.
std::optional<std::string> difference_in(const fs::path& folder, const std::string& only,
                                         Compared by = Compared::contents) {
  const auto manifest = read_json(folder / kName);
  for (const auto& [name, expected] : manifest.at("files").items()) {
    if (!only.empty() && name != only) continue;
    const auto difference = compare(folder / fs::path(name).filename(), expected, by);
    if (!difference.empty()) return name + " " + difference;
  }
  return std::nullopt;
}

std::optional<std::string> damage_in(const fs::path& folder, const std::string& only,
                                     Compared by = Compared::contents) {
  try {
    return difference_in(folder, only, by);
  } catch (const json::exception&) {
    return fmt::format("{} cannot be read", kName);
  } catch (const UserError& error) {
    return error.what();
  }
}

}  // namespace

void write_checksums(const fs::path& folder) {
  auto files = json::object();
  for (const auto& entry : entries_of(folder)) {
    files[entry.path().filename().string()] = describe_file(entry.path());
  }
  write_text(folder / kName, json{{"files", files}}.dump(1));
}

std::optional<std::string> folder_damage(const fs::path& folder) { return damage_in(folder, ""); }

std::optional<std::string> folder_cut_short(const fs::path& folder) {
  return damage_in(folder, "", Compared::lengths);
}

std::optional<std::string> file_damage(const fs::path& file) {
  std::error_code ignored;
  if (!fs::exists(file.parent_path() / kName, ignored)) return std::nullopt;
  return damage_in(file.parent_path(), file.filename().string());
}

std::optional<std::string> file_replaced(const fs::path& file) {
  try {
    return difference_in(file.parent_path(), file.filename().string());
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace nsvq
