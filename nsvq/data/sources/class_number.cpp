#include "nsvq/data/sources/class_number.h"

#include <charconv>
#include <system_error>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/image_names.h"

namespace nsvq {

namespace {

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

std::string_view without_ending(std::string_view name) { return name.substr(0, name.rfind('.')); }

std::string plain_name(std::string_view name) {
  while (name.starts_with("./")) name.remove_prefix(2);
  return std::string(name);
}

bool is_class_number_name(std::string_view name) { return plain_ending(name) == ".cls"; }

void check_class_number_size(int64_t size, const std::string& name) {
  if (size <= kLongestClassNumber) return;
  throw UserError("{}: expected a class number, found {} bytes", name, size);
}

int64_t parse_class_number(std::span<const std::byte> contents, const std::string& name) {
  const auto text = trimmed({reinterpret_cast<const char*>(contents.data()), contents.size()});
  int64_t label = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || label < 0) {
    throw UserError("{}: expected a class number, found {}", name, quote(text));
  }
  return label;
}

}  // namespace nsvq
