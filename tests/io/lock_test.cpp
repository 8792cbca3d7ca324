#include "nsvq/io/files/lock.h"

#include <gtest/gtest.h>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"

namespace nsvq {
namespace {

TEST(FolderLock, IsHeldByOneAtATime) {
  TemporaryFolder folder;
  EXPECT_FALSE(FolderLock::held(folder.path()));
  {
    const auto lock = FolderLock::try_take(folder.path());
    ASSERT_TRUE(lock);
    EXPECT_TRUE(FolderLock::held(folder.path()));
    EXPECT_FALSE(FolderLock::try_take(folder.path()));
  }
  EXPECT_FALSE(FolderLock::held(folder.path()));
  EXPECT_TRUE(FolderLock::try_take(folder.path()));
}

TEST(FolderLock, ALinkIsNotFollowed) {
  TemporaryFolder folder;
  std::filesystem::create_symlink("made-by-the-lock", folder / ".lock");
  EXPECT_THROW(FolderLock::try_take(folder.path()), UserError);
  EXPECT_FALSE(FolderLock::held(folder.path()));
  EXPECT_FALSE(std::filesystem::exists(folder / "made-by-the-lock"));
}

}  // namespace
}  // namespace nsvq
