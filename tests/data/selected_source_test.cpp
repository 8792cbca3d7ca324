// Parts of folders, tars, commands, built-in pictures and lists of them.

#include "nsvq/data/sources/selected_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/data/fake_source.h"
#include "tests/data/open_errors.h"
#include "tests/data/piped_tars.h"

namespace nsvq {
namespace {

using namespace testing_files;
using Texts = std::vector<std::string>;

/// Images of two classes, as a folder `all` and as tars.
class PartsOfSources : public testing::Test {
 protected:
  PartsOfSources() {
    TarFiles files;
    for (int i = 0; i < 40; ++i) {
      const auto name = fmt::format("{}/{:02}.png", i % 3 ? "cat" : "dog", i);
      const auto image = plain_image(8, 8, static_cast<uint8_t>(i));
      write_png(folder_ / "all" / name, image);
      files.emplace_back(name, png_text(image));
    }
    std::reverse(files.begin(), files.end());
    write_text(folder_ / "reversed.tar", make_tar(files));
    for (auto& [name, content] : files) name = "./" + name;
    write_text(folder_ / "a.tar", make_tar({files.begin(), files.begin() + 7}));
    write_text(folder_ / "b.tar", make_tar({files.begin() + 7, files.end()}));
  }

  static std::set<std::string> names_of(const Sources& sources) {
    const auto keys = keys_of(*open_source(sources));
    EXPECT_EQ(std::set(keys.begin(), keys.end()).size(), keys.size());
    return {keys.begin(), keys.end()};
  }

  TempFolder folder_;
};

TEST_F(PartsOfSources, NeitherOrderNorShardsNorOtherImagesMatter) {
  const auto tune = names_of(folder_.text("all#0..0.3"));
  const auto rest = names_of(folder_.text("all#0.3..1"));
  EXPECT_EQ(tune.size() + rest.size(), 40U);
  EXPECT_GT(tune.size(), 4U);
  EXPECT_LT(tune.size(), 20U);
  for (const auto& name : tune) {
    EXPECT_TRUE((Part{0, 0.3}).contains(name));
    EXPECT_FALSE(rest.contains(name));
  }
  EXPECT_EQ(names_of(folder_.text("reversed.tar#0..0.3")), tune);
  EXPECT_EQ(names_of(folder_.text("{b,a}.tar#0..0.3")), tune);
  EXPECT_EQ(names_of(folder_.text("a.tar") + "," + folder_.text("b.tar#0..0.3")), tune);
  EXPECT_EQ(names_of(Texts{folder_.text("a.tar#0..0.3"), folder_.text("b.tar#0..0.3")}), tune);
  for (const auto& name : rest) std::filesystem::remove(folder_ / "all" / name);
  EXPECT_EQ(names_of(folder_.text("all#0..0.3")), tune);
}

TEST_F(PartsOfSources, ImagesKeepTheirOrderAndClasses) {
  const auto whole = open_source(folder_.text("all")),
             part = open_source(folder_.text("all#0..0.3"));
  EXPECT_EQ(part->classes(), whole->classes());
  int64_t next = 0;
  for (int64_t i = 0; i < whole->size(); ++i) {
    if (!Part{0, 0.3}.contains(whole->key(i))) continue;
    EXPECT_EQ(part->key(next), whole->key(i));
    EXPECT_EQ(part->label(next), whole->label(i));
    EXPECT_EQ(part->load(next).pixels, whole->load(i).pixels);
    ++next;
  }
  EXPECT_EQ(part->size(), next);
  EXPECT_THROW(part->load(next), std::out_of_range);
  EXPECT_EQ(keys_of(*open_source(folder_.text("all#0..1"))), keys_of(*whole));
}

TEST_F(PartsOfSources, BuiltinPicturesHaveParts) {
  const auto part = open_source("builtin:dead-leaves?size=9&count=50#0.5..1");
  const auto more = open_source("builtin:dead-leaves?size=9&count=99#0.5..1");
  ASSERT_GT(part->size(), 10);
  for (int64_t i = 0; i < part->size(); ++i) EXPECT_EQ(part->key(i), more->key(i));
  EXPECT_EQ(part->load(3).pixels, more->load(3).pixels);
}

TEST_F(PartsOfSources, OneOfSeveralMayBeEmpty) {
  write_png(folder_ / "few/ant/1.png", plain_image(8, 8, 1));
  const std::string other = Part{0, 0.3}.contains("ant/1.png") ? "#0.3..1" : "#0..0.3";
  const auto both = open_source(Texts{folder_.text("few") + other, folder_.text("all") + other});
  EXPECT_EQ(both->size(), open_source(folder_.text("all") + other)->size());
  EXPECT_TRUE(both->key(0).starts_with("all/"));
  EXPECT_EQ(both->classes(), (Texts{"ant", "cat", "dog"})) << "numbered as in the other part";
  expect_open_error(folder_.text("few") + other, {"few" + other, "no image"});
  const Texts twice(2, folder_.text("few") + other);
  expect_contains(error_of([&] { open_source(twice); }), {"no image"});
}

TEST_F(PartsOfSources, UnknownPartsAreRefused) {
  const auto all = folder_.text("all");
  for (const auto& part : {"#tset", "#0.2..0.1", "#", "#0.1"}) {
    expect_open_error(all + part, {all + part, "is no part of " + all, "0.1..0.2"});
  }
  expect_open_error(all + "#test", {"data.split"});
  const auto tars = folder_.text("a.tar#0..0.5,") + folder_.text("b.tar");
  expect_open_error(tars, {"does not exist", "behind all of a list"});
  expect_open_error(folder_.text("missing#0..0.5"), {"missing' does not exist"});
}

TEST_F(PartsOfSources, PathsMayHaveTheSign) {
  std::filesystem::rename(folder_ / "all", folder_ / "no#1#test");
  EXPECT_EQ(open_source(folder_.text("no#1#test"))->size(), 40);
  EXPECT_LT(open_source(folder_.text("no#1#test#0..0.3"))->size(), 20);
  std::filesystem::rename(folder_ / "a.tar", folder_ / "no#1.tar");
  std::filesystem::rename(folder_ / "b.tar", folder_ / "no#2.tar");
  std::filesystem::create_directory(folder_ / "no");  // no part of it is named
  EXPECT_EQ(open_source(folder_.text("no#*.tar"))->size(), 40);
  EXPECT_EQ(open_source(folder_.text("no#{1,2}.tar"))->size(), 40);
}

/// The names of an epoch's images, in their order.
Texts epoch_names(const std::shared_ptr<const Source>& source, const LoaderOptions& options,
                  int64_t batch = 0) {
  Loader loader(source, options);
  loader.start(1, batch);
  Texts names;
  for (const auto index : all_indices(rest_of_epoch(loader))) names.push_back(source->key(index));
  return names;
}

TEST_F(PartsOfSources, RanksAndThreadsReadThem) {
  const std::shared_ptr<const Source> part = open_source(folder_.text("{b,a}.tar#0.3..1"));
  std::multiset<std::string> read;
  for (int rank = 0; rank < 2; ++rank) {
    auto options = small(false);
    options.rank = rank;
    options.world = 2;
    const auto names = epoch_names(part, options);
    options.threads = 7;
    EXPECT_EQ(epoch_names(part, options), names);
    read.insert(names.begin(), names.end());
  }
  const auto keys = keys_of(*part);
  EXPECT_EQ(read, std::multiset<std::string>(keys.begin(), keys.end()));
  const auto whole = epoch_names(part, small(true)), rest = epoch_names(part, small(true), 2);
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), whole.begin() + 8, whole.end()));
}

/// Commands that write tars, with a list of their images.
class PartsOfCommands : public testing::Test {
 protected:
  PartsOfCommands() {
    tars_.open();
    sources_.pipes_allowed = true;
    direct_.items.clear();
    for (size_t i = 0; i < tars_.commands().size(); ++i) {
      sources_.items.push_back("pipe:" + tars_.commands()[i] + "#0..0.4");
      direct_.items.push_back(tars_.paths()[i].string() + "#0..0.4");
    }
  }
  const PipedTars tars_{{9, 1, 14, 8, 11}};
  Sources sources_, direct_;
};

TEST_F(PartsOfCommands, AreThoseOfTheTars) {
  const std::shared_ptr<const Source> piped = open_source(sources_), direct = open_source(direct_);
  EXPECT_EQ(keys_of(*piped), keys_of(*direct));
  EXPECT_EQ(labels_of(*piped), labels_of(*direct));
  ASSERT_NE(piped->shards(), nullptr);
  ASSERT_GT(piped->size(), 8);
  EXPECT_EQ(epoch_names(piped, small(false)), epoch_names(direct, small(false)));
  EXPECT_EQ(piped->load(piped->size() - 1).pixels, direct->load(direct->size() - 1).pixels);
}

TEST_F(PartsOfCommands, PartsOfOneCommandAloneOrOfAll) {
  Sources some = sources_;
  for (size_t i = 1; i < some.items.size(); ++i) some.items[i] = "pipe:" + tars_.commands()[i];
  const auto first = open_source(direct_.items[0])->size();
  EXPECT_EQ(open_source(some)->size(), tars_.images() - 9 + first);
}

TEST_F(PartsOfCommands, TrainingReadsEachImageOnceAndStartsAnywhere) {
  const std::shared_ptr<const Source> piped = open_source(sources_);
  auto options = small(true);
  options.shuffle_buffer = 4;
  const auto names = epoch_names(piped, options);
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
  options.threads = 1;
  EXPECT_EQ(epoch_names(piped, options), names);
  const auto rest = epoch_names(piped, options, 1);
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), names.begin() + 4, names.end()));
  std::multiset<std::string> of_ranks;
  for (int rank = 0; rank < 2; ++rank) {
    options.rank = rank;
    options.world = 2;
    options.batch_size = 1;
    const auto own = epoch_names(piped, options);
    of_ranks.insert(own.begin(), own.end());
  }
  for (const auto& name : of_ranks) EXPECT_EQ(of_ranks.count(name), 1U) << name;
}

TEST_F(PartsOfCommands, AShardWithoutTheirImagesIsNotRead) {
  Sources one = "pipe:" + tars_.commands()[1] + "#0..0.4";  // of one image
  one.pipes_allowed = true;
  const bool is_in = Part{0, 0.4}.contains(open_source(tars_.paths()[1].string())->key(0));
  if (!is_in) {
    expect_contains(error_of([&] { open_source(one); }), {"no image"});
  }
  tars_.shards_read();
  epoch_names(open_source(sources_), small(false));
  const auto read = tars_.shards_read();
  EXPECT_EQ(std::find(read.begin(), read.end(), "1.tar") != read.end(), is_in);
}

}  // namespace
}  // namespace nsvq
