#include "nsvq/io/processes/exec_words.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace nsvq {

ExecWords::ExecWords(std::vector<std::string> texts) : texts_(std::move(texts)) {
  for (auto& text : texts_) pointers_.push_back(text.data());
  pointers_.push_back(nullptr);
}

std::vector<std::string> environment_with(const std::vector<std::string>& own) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const auto replaces = [&](const std::string& one) {
      return text.starts_with(one.substr(0, one.find('=') + 1));
    };
    if (std::none_of(own.begin(), own.end(), replaces)) all.emplace_back(text);
  }
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

}  // namespace nsvq
