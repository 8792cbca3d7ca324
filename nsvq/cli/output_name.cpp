#include "nsvq/cli/output_name.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "nsvq/core/error.h"

namespace nsvq {

void require_folder_name(const std::string& out, const std::string& understood) {
  const auto ending = std::filesystem::path(out).extension().string();
  const auto letters = [](unsigned char c) { return std::isalnum(c) != 0; };
  // .webp, but not the .5 of a number or the end of a sentence.
  const bool like_a_file = ending.size() >= 3 && ending.size() <= 12 &&
                           std::isalpha(static_cast<unsigned char>(ending[1])) != 0 &&
                           std::all_of(ending.begin() + 1, ending.end(), letters);
  std::error_code ignored;
  if (!like_a_file || std::filesystem::is_directory(out, ignored)) return;
  throw UserError(
      "--out {}: {} is not an ending that is understood; {}, or a folder, whose name may "
      "end in / to tell it from a file",
      out, ending, understood);
}

}  // namespace nsvq
