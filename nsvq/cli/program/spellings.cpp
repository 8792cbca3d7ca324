#include "nsvq/cli/program/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"

namespace nsvq {

namespace {

struct OldSpelling {
  std::string old, now;
};

struct OldOption {
  std::string command, old, now;  ///< `now` empty: the value alone, as a word of its own
};

// Rows stay for one version after the renaming.
const std::vector<OldSpelling> kCommands = {{"metrics", "images compare"},
                                            {"statistics", "images statistics"},
                                            {"index", "images index"},
                                            {"latents", "encode"}};
const std::vector<OldOption> kOptions = {{"eval", "--as", "--conventions"},
                                         {"compare", "--as", "--conventions"},
                                         {"images compare", "--as", "--conventions"},
                                         {"diffusion eval", "--as", "--conventions"},
                                         {"compare", "--samples", "--pictures"},
                                         {"compare", "--columns", "--transpose"},
                                         {"diffusion eval", "--samples", "--count"},
                                         {"diffusion eval", "--reference", "--data"},
                                         {"generate eval", "--samples", "--count"},
                                         {"generate eval", "--reference", "--data"},
                                         {"import", "--like", "--recipe"},
                                         {"import", "--set", ""}};

std::vector<std::string> split(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool begins_with(const std::vector<std::string>& words, const std::vector<std::string>& beginning) {
  return words.size() >= beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), words.begin());
}

void refuse_gone_commands(const std::vector<std::string>& words) {
  if (begins_with(words, {"tokens", "merge"})) {
    throw UserError(
        "nsvq tokens merge is gone; nsvq tokenize --part fills one folder; merged ones still open");
  }
  for (const char* timed : {"ops", "diffusion"}) {
    if (!begins_with(words, {"bench", timed})) continue;
    throw UserError("nsvq bench {} is now nsvq_bench {}, a program of its own in the build folder",
                    timed, timed);
  }
}

}  // namespace

std::vector<std::string> with_present_spellings(std::vector<std::string> words) {
  refuse_gone_commands(words);
  for (const auto& [old, now] : kCommands) {
    if (words.empty() || words[0] != old) continue;
    log("nsvq {} is now nsvq {}", old, now);
    const auto present = split(now);
    words.erase(words.begin());
    words.insert(words.begin(), present.begin(), present.end());
  }
  for (const auto& [command, old, now] : kOptions) {
    if (!begins_with(words, split(command))) continue;
    std::vector<std::string> kept;
    for (const auto& word : words) {
      const bool joined = word.starts_with(old + "=");
      if (word != old && !joined) {
        kept.push_back(word);
        continue;
      }
      log("nsvq {}: {} is now {}", command, old, now.empty() ? "written without it" : now);
      const auto value = joined ? word.substr(old.size()) : "";
      if (!now.empty()) kept.push_back(now + value);
      if (now.empty() && joined) kept.push_back(value.substr(1));
    }
    words = std::move(kept);
  }
  return words;
}

}  // namespace nsvq
