#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace nsvq {

/// "1 image", "2 images".
std::string count_of(std::integral auto number, std::string_view thing) {
  return fmt::format("{} {}{}", number, thing, number == 1 ? "" : "s");
}

}  // namespace nsvq
