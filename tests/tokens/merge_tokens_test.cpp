#include "nsvq/tokens/merge_tokens.h"

#include <gtest/gtest.h>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/tokens/token_check.h"
#include "nsvq/tokens/token_work.h"
#include "tests/error_of.h"
#include "tests/tokens/small_tokens.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

class MergeTokens : public testing::Test {
 protected:
  fs::path make(const std::string& name, int64_t images, char names) {
    make_tokens(folder_ / name, small_settings(images, names));
    return folder_ / name;
  }
  fs::path change(const std::string& name, void (*edit)(TokenSettings&)) {
    auto settings = small_settings(3, 'z');
    edit(settings);
    make_tokens(folder_ / name, settings);
    return folder_ / name;
  }
  std::string error_of_merging(const std::vector<fs::path>& folders) {
    const auto out = folder_ / "refused";
    const auto error = error_of([&] { merge_tokens(folders, out); });
    EXPECT_FALSE(fs::exists(out)) << error;
    return error;
  }

  TemporaryFolder folder_;
};

TEST_F(MergeTokens, ShardsFollowInTheOrderGiven) {
  const auto a = make("a", 5, 'a'), b = make("b", 3, 'b');
  const auto out = folder_ / "out";
  const auto merged = merge_tokens({b, a}, out);
  EXPECT_EQ(merged, read_token_manifest(out));
  EXPECT_TRUE(merged.complete);
  EXPECT_EQ(merged.settings.images, 8);
  ASSERT_EQ(merged.shards.size(), 5u);
  EXPECT_EQ(merged.source, "photos + photos");
  EXPECT_EQ(read_file(out / token_shard_name(1)), read_file(b / token_shard_name(1)));
  EXPECT_EQ(read_file(out / token_shard_name(2)), read_file(a / token_shard_name(0)));
  EXPECT_TRUE(check_tokens(out, merged).empty());
  EXPECT_EQ(bytes_below(out).size(), 6u);

  fs::remove_all(b);  // links or copies, the result needs none of them
  EXPECT_TRUE(check_tokens(out, merged).empty());
  EXPECT_NE(error_of([&] { make_tokens(out, small_settings(8, 'a')); }).find("names of images"),
            std::string::npos);
}

TEST_F(MergeTokens, InStepsOrAtOnceIsTheSame) {
  const auto a = make("a", 5, 'a'), b = make("b", 3, 'b'), c = make("c", 4, 'c');
  merge_tokens({a, b, c}, folder_ / "once");
  merge_tokens({a, b}, folder_ / "ab");
  merge_tokens({folder_ / "ab", c}, folder_ / "steps");
  EXPECT_TRUE(bytes_below(folder_ / "once") == bytes_below(folder_ / "steps"));
}

TEST_F(MergeTokens, DifferencesAreNamed) {
  const auto a = make("a", 5, 'a');
  const auto model =
      change("model", [](TokenSettings& s) { s.model_sha256 = std::string(64, 'f'); });
  const auto size = change("size", [](TokenSettings& s) { s.image_width = 32; });
  const auto batch = change("batch", [](TokenSettings& s) { s.batch_size = 1; });
  const auto names = change("names", [](TokenSettings& s) { s.classes = {"bee"}; });
  const auto others = change("others", [](TokenSettings& s) { s.classes = {"cat"}; });
  const auto expect = [&](const std::vector<fs::path>& folders, const std::string& wanted) {
    const auto error = error_of_merging(folders);
    EXPECT_TRUE(error.ends_with(": " + wanted)) << error;
    EXPECT_TRUE(error.starts_with(folders.back().string())) << error;
  };
  const std::string remedy = "; tokenize both with --classes FILE";
  expect({a, model}, "model (ffffffffffff here, aaaaaaaaaaaa there)");
  expect({a, size}, "image size (16x32 here, 16x24 there)");
  expect({a, batch}, "batch size (1 here, 2 there)");
  expect({a, names}, "names of classes (1 here, 0 there)" + remedy);
  expect({names, others}, "names of classes (class 0 is 'cat' here, 'bee' there)" + remedy);
}

TEST_F(MergeTokens, DamagedAndUnfinishedFoldersAreRefused) {
  const auto a = make("a", 5, 'a'), b = make("b", 5, 'b');
  write_text(b / token_shard_name(2), "x");
  EXPECT_NE(error_of_merging({a, b}).find((b / token_shard_name(2)).string()), std::string::npos);
  auto manifest = read_token_manifest(a);
  manifest.complete = false;
  manifest.shards.pop_back();
  write_token_manifest(a, manifest);
  EXPECT_NE(error_of_merging({a}).find("not been written yet"), std::string::npos);
  EXPECT_NE(error_of_merging({folder_ / "none"}).find("no such folder"), std::string::npos);
}

TEST_F(MergeTokens, NothingIsReplaced) {
  const auto a = make("a", 3, 'a');
  for (const auto* used : {"a", "file", "folder", "link"}) {
    const auto out = folder_ / used;
    if (std::string(used) == "file") write_text(out, "mine");
    if (std::string(used) == "folder") write_text(out / "notes", "mine");
    if (std::string(used) == "link") fs::create_symlink("nowhere", out);
    EXPECT_NE(error_of([&] { merge_tokens({a}, out); }).find("--out"), std::string::npos) << used;
  }
  EXPECT_EQ(read_text(folder_ / "file"), "mine");
  fs::create_directory(folder_ / "empty");
  EXPECT_EQ(merge_tokens({a}, folder_ / "empty").shards.size(), 2u);
}

}  // namespace
}  // namespace nsvq
