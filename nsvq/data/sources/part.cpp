#include "nsvq/data/sources/part.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "nsvq/core/error.h"
#include "nsvq/io/files/sha256.h"

namespace nsvq {

namespace {

constexpr std::array<std::string_view, 4> kNames = {"train", "tune", "test", "all"};

/// The first 64 bits of SHA-256.
uint64_t hash_of(std::string_view name) {
  Sha256 hash;
  hash.add(std::as_bytes(std::span(name)));
  const auto digits = hash.hex();
  uint64_t bits = 0;
  std::from_chars(digits.data(), digits.data() + 16, bits, 16);
  return bits;
}

bool is_below(uint64_t hash, double share) {
  return share >= 1 || hash < static_cast<uint64_t>(std::ldexp(share, 64));
}

std::optional<double> parse_share(std::string_view text) {
  double value = 0;
  const auto* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || last != end) return std::nullopt;
  return value;
}

std::optional<Part> parse_part(std::string_view text) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const auto from = parse_share(text.substr(0, dots)), to = parse_share(text.substr(dots + 2));
  if (!from || !to || !(*from >= 0 && *from < *to && *to <= 1)) return std::nullopt;
  return Part{*from, *to};
}

bool is_name(std::string_view text) {
  return std::find(kNames.begin(), kNames.end(), text) != kNames.end();
}

}  // namespace

bool Part::contains(std::string_view name) const {
  if (from <= 0 && to >= 1) return true;
  const auto hash = hash_of(name);
  return !is_below(hash, from) && is_below(hash, to);
}

NamedPart::NamedPart(const std::string& text) : source(text) {
  const size_t mark = text.rfind('#');
  if (mark == std::string::npos) return;
  std::error_code ignored;
  if (std::filesystem::exists(text, ignored)) return;
  const auto behind = text.substr(mark + 1);
  if (!is_name(behind) && !parse_part(behind)) return;
  source = text.substr(0, mark);
  part = behind;
}

Part part_of(const std::string& item) {
  const NamedPart named(item);
  if (named.part.empty() || named.part == "all") return {};
  if (const auto part = parse_part(named.part)) return *part;
  throw UserError(
      "{}: what its part {} is depends on the settings of a run (data.split); give hashes, such as "
      "{}#0..0.1",
      item, named.part, named.source);
}

Part Split::part(const std::string& name) const {
  if (name == "all") return {};
  if (name == "train") return {tune + test, 1};
  if (name == "tune" && tune > 0) return {0, tune};
  if (name == "test" && test > 0) return {tune, tune + test};
  throw UserError("data.split.{} is 0, so no images are held out for this part", name);
}

Sources with_hashes(Sources sources, const Split& split, const std::string& unnamed) {
  for (auto& item : sources.items) {
    const NamedPart named(item);
    const auto& name = named.part.empty() ? unnamed : named.part;
    if (!is_name(name)) continue;
    try {
      const auto part = split.part(name);
      const bool whole = part.from <= 0 && part.to >= 1;
      item = whole ? named.source : fmt::format("{}#{}..{}", named.source, part.from, part.to);
    } catch (const UserError& error) {
      throw UserError("{}: {}", item, error.what());
    }
  }
  return sources;
}

}  // namespace nsvq
