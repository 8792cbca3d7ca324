// Kills real `nsvq tokenize` processes with SIGKILL, starts them again, and compares with a folder
// made at once. NSVQ_KILLS sets the number of kills.

#include <gtest/gtest.h>

#include <map>

#include "nsvq/core/temporary_folder.h"
#include "tests/cli/kill.h"
#include "tests/cli/model_file.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::vector<std::byte>> files_in(const fs::path& folder) {
  std::map<std::string, std::vector<std::byte>> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_file(entry.path());
  }
  return files;
}

TEST(TokenizeKill, TheFolderIsTheSameAfterAnyNumberOfKills) {
  TemporaryFolder folder;
  const auto model = folder / "model.safetensors";
  write_model_file(model, tiny_config());
  const auto command = [&](const fs::path& out) -> std::vector<std::string> {
    return {"tokenize", model.string(), "--data",       "builtin:dead-leaves?size=24&count=1500",
            "--out",    out.string(),   "--shard-size", "8"};
  };
  kill_and_compare(folder.path(), command, [](const fs::path& whole, const fs::path& out) {
    const auto expected = files_in(whole);
    EXPECT_EQ(expected.size(), 188u + 1);  // shards, manifest
    EXPECT_TRUE(files_in(out) == expected) << out;
  });
}

}  // namespace
}  // namespace nsvq
