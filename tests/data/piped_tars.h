#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "nsvq/data/sources/dead_leaves.h"
#include "nsvq/data/streams/pipe_index.h"
#include "nsvq/data/streams/pipe_source.h"
#include "tests/data/files.h"
#include "tests/environment.h"

namespace nsvq::testing_files {

/// Tar shards of pictures, commands that write them, and a cache folder for the lists of images.
class PipedTars {
 public:
  static constexpr int kSide = 10;

  /// So many images in each shard; `broken` ones, counted over all shards, cannot be decoded.
  explicit PipedTars(const std::vector<int>& sizes, const std::vector<int>& broken = {}) {
    for (const int size : sizes) {
      TarFiles files = {{"README", "no image"}};
      for (int i = 0; i < size; ++i, ++images_) {
        const bool bad = std::find(broken.begin(), broken.end(), images_) != broken.end();
        files.emplace_back(fmt::format("{}/{:04}.png", images_ % 2 ? "odd" : "even", images_),
                           bad ? "no picture" : png_text(dead_leaves(7, images_, kSide)));
      }
      const auto name = fmt::format("{}.tar", paths_.size());
      write_text(folder_ / name, make_tar(files));
      paths_.push_back(folder_ / name);
      // The shards that are read can be seen in a file.
      commands_.push_back(fmt::format("echo {} >> '{}'; cat '{}'", name, folder_.text("read"),
                                      paths_.back().string()));
    }
  }

  const TempFolder& folder() const { return folder_; }
  const std::vector<std::filesystem::path>& paths() const { return paths_; }
  const std::vector<std::string>& commands() const { return commands_; }
  int images() const { return images_; }

  std::shared_ptr<const PipeSource> open() const {
    index_pipes(commands_, {});
    return std::make_shared<PipeSource>(commands_, ImageLimits{}, no_pause(0));
  }
  static Retries no_pause(int64_t times) {
    return {.times = times, .first_pause = std::chrono::milliseconds(0)};
  }
  /// The shards that commands have written since the last call.
  std::vector<std::string> shards_read() const {
    std::vector<std::string> names(1);
    if (!std::filesystem::exists(folder_ / "read")) return {};
    for (const char c : read_text(folder_ / "read")) {
      c == '\n' ? names.emplace_back() : names.back() += c;
    }
    names.pop_back();
    std::filesystem::remove(folder_ / "read");
    return names;
  }

 private:
  TempFolder folder_;
  Environment variable_{"XDG_CACHE_HOME", folder_.text("cache")};
  std::vector<std::filesystem::path> paths_;
  std::vector<std::string> commands_;
  int images_ = 0;
};

}  // namespace nsvq::testing_files
