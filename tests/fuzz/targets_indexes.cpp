// Lists of the images that commands write, which anyone who may write to the cache folder may have
// written.
#include <stdlib.h>

#include <filesystem>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/data/streams/pipe_index.h"
#include "nsvq/io/files/file.h"
#include "tests/fuzz/target.h"

namespace nsvq {

namespace {

constexpr auto kCommand = "cat a.tar";

void read_pipe_index(std::span<const std::byte> bytes) {
  static const TemporaryFolder cache;
  ::setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
  static const auto file = pipe_index_file(kCommand);
  std::filesystem::create_directories(file.parent_path());
  // A link, since a fuzzer overwrites one file thousands of times a second.
  if (!std::filesystem::exists(std::filesystem::symlink_status(file))) {
    std::filesystem::create_symlink(file_with(bytes, "list.json"), file);
  }
  file_with(bytes, "list.json");
  if (!load_pipe_index(kCommand)) throw UserError("refused");
}

std::map<std::string, Bytes> pipe_index_seeds() {
  const TemporaryFolder cache;
  ::setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
  save_pipe_index(kCommand, {{"a.jpg", 100, -1}, {"b\xff.png", 200, 3}});
  return {{"list.json", read_file(pipe_index_file(kCommand))}};
}

}  // namespace

std::vector<FuzzTarget> index_targets() {
  return {{"pipe_index", read_pipe_index, pipe_index_seeds}};
}

}  // namespace nsvq
