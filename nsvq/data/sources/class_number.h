#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace nsvq {

/// The longest contents of a .cls entry: a number and blanks.
inline constexpr int64_t kLongestClassNumber = 100;

/// The number that a .cls entry holds. Throws UserError calling it `name`.
int64_t parse_class_number(std::span<const std::byte> contents, const std::string& name);

/// Throws UserError if an entry of so many bytes holds no number.
void check_class_number_size(int64_t size, const std::string& name);

/// Whether an entry holds a class number, by its name.
bool is_class_number_name(std::string_view name);

/// `a/b.cls` and `a/b.jpg` without their endings, by which they belong together.
std::string_view without_ending(std::string_view name);

/// A name without the "./" that `tar c .` puts before it.
std::string plain_name(std::string_view name);

}  // namespace nsvq
