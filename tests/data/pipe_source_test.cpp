#include "nsvq/data/streams/pipe_source.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/data/sources/tar_source.h"
#include "nsvq/data/streams/pipe_commands.h"
#include "tests/data/piped_tars.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;
using namespace testing_files;

void index_without_retry(const std::string& command) {
  index_pipes({command}, {.again = true, .retries = PipedTars::no_pause(0)});
}

/// Every image that the shards of a source hand over, in order.
std::vector<int64_t> images_read(const PipeSource& source) {
  std::vector<int64_t> images;
  const auto& starts = source.shard_starts();
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    source.read(static_cast<int64_t>(i), starts[i], starts[i + 1],
                [&](int64_t image, const std::vector<std::byte>& bytes) {
                  EXPECT_EQ(source.decode(image, bytes).pixels, source.load(image).pixels);
                  images.push_back(image);
                  return true;
                },
                {});
  }
  return images;
}

TEST(PipeSource, HoldsWhatTheTarsHold) {
  const PipedTars tars({3, 0, 5, 1});
  const auto piped = tars.open();
  const TarSource direct(tars.paths());
  EXPECT_EQ(keys_of(*piped), keys_of(direct));
  EXPECT_EQ(piped->classes(), direct.classes());
  for (int64_t i = 0; i < direct.size(); ++i) {
    EXPECT_EQ(piped->label(i), direct.label(i));
    EXPECT_EQ(piped->load(i).pixels, direct.load(i).pixels);
  }
  EXPECT_EQ(images_read(*piped), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(PipeSource, KnowsClassNumbers) {
  const TempFolder folder;
  const Environment cache("XDG_CACHE_HOME", folder.text("cache"));
  const auto image = png_text(plain_image(8, 8, 1));
  write_text(folder / "a.tar", make_tar({{"x.cls", "12\n"},
                                         {"x.png", image},
                                         {"y.png", image},
                                         {"y.cls", " 0"},
                                         {"z.png", image}}));
  const auto command = "cat " + folder.text("a.tar");
  index_pipes({command}, {});
  const PipeSource source({command});
  EXPECT_EQ(source.label(0), 12);
  EXPECT_EQ(source.label(1), 0);
  EXPECT_EQ(source.label(2), -1);
  write_text(folder / "b.tar", make_tar({{"x.cls", "twelve"}, {"x.png", image}}));
  expect_contains(error_of([&] { index_without_retry("cat " + folder.text("b.tar")); }),
                  {"b.tar", "x.cls", "twelve"});
}

TEST(PipeSource, MustBeCountedFirst) {
  const PipedTars tars({2, 2, 2});
  index_pipes({tars.commands()[1]}, {});
  expect_contains(error_of([&] { PipeSource source(tars.commands()); }),
                  {"0.tar", "2 of 3 commands", "nsvq images index"});
}

TEST(PipeSource, SaysWhereListsCannotBeKept) {
  const PipedTars tars({2});
  write_text(tars.folder() / "file", "no folder");
  const Environment no_home("HOME", std::nullopt);
  for (const auto& cache : {std::string(), tars.folder().text("file/cache")}) {
    const Environment variable("XDG_CACHE_HOME", cache);
    expect_contains(error_of<RunError>([&] { index_pipes(tars.commands(), {}); }),
                    {"XDG_CACHE_HOME"});
    expect_contains(error_of([&] { PipeSource source(tars.commands()); }), {"nsvq images index"});
  }
}

TEST(PipeSource, CountingGoesOnWhereItWas) {
  const PipedTars tars({2, 2, 2});
  index_pipes({tars.commands()[1]}, {});
  EXPECT_EQ(tars.shards_read(), std::vector<std::string>{"1.tar"});
  index_pipes(tars.commands(), {.jobs = 1});
  EXPECT_EQ(tars.shards_read(), (std::vector<std::string>{"0.tar", "2.tar"}));
  index_pipes(tars.commands(), {.again = true, .jobs = 1});
  EXPECT_EQ(tars.shards_read().size(), 3U);
}

TEST(PipeSource, ListsAreJsonWithAnyName) {
  const PipedTars tars({2});
  const std::vector<PipedImage> images = {{"a.png", 10, -1}, {"\xff\n.jpg", 0, 7}};
  save_pipe_index("cat \xff", images);
  EXPECT_EQ(load_pipe_index("cat \xff"), images);
  const auto list = nlohmann::json::parse(read_text(pipe_index_file("cat \xff")));
  EXPECT_EQ(list.at("names").at(0), "a.png");
  EXPECT_EQ(list.at("labels"), (std::vector<int64_t>{-1, 7}));
  EXPECT_FALSE(load_pipe_index("cat"));
}

TEST(PipeSource, InvalidListsCountAsMissing) {
  const PipedTars tars({2});
  const auto& command = tars.commands()[0];
  save_pipe_index(command, {{"a.png", 10, -1}});
  const auto whole = nlohmann::json::parse(read_text(pipe_index_file(command)));
  const auto loads = [&](const char* key, const nlohmann::json& value) {
    auto list = whole;
    list[key] = value;
    write_text(pipe_index_file(command), list.dump());
    return load_pipe_index(command).has_value();
  };
  using Values = std::vector<int64_t>;
  EXPECT_TRUE(loads("bytes", Values{11}));
  EXPECT_FALSE(loads("bytes", Values{-10}));
  EXPECT_FALSE(loads("bytes", Values{10, 10}));
  EXPECT_FALSE(loads("bytes", 10));
  EXPECT_FALSE(loads("labels", Values{-2}));
  EXPECT_FALSE(loads("labels", {"1"}));
  EXPECT_FALSE(loads("names", {"a.txt"}));
  EXPECT_FALSE(loads("names", Values{1}));
  EXPECT_FALSE(loads("command", "another command"));
  EXPECT_FALSE(loads("version", 2));
  const auto text = whole.dump();
  for (size_t size = 0; size < text.size(); ++size) {
    write_text(pipe_index_file(command), text.substr(0, size));
    EXPECT_FALSE(load_pipe_index(command)) << size;
  }
}

TEST(PipeSource, AFailingCommandIsNamed) {
  const TempFolder folder;
  const Environment cache("XDG_CACHE_HOME", folder.text("cache"));
  expect_contains(error_of<RunError>([] { index_without_retry("echo 'no bucket' >&2; exit 4"); }),
                  {"pipe:echo", "exit status 4", "no bucket"});
  expect_contains(error_of<RunError>([] { index_without_retry("false"); }),
                  {"pipe:false", "exit status 1"});
  expect_contains(
      error_of<RunError>([] { index_without_retry("{ echo lost >&2; false; } | cat"); }),
      {"exit status 0", "lost", "truncated"});
}

TEST(PipeSource, OutputThatIsNoTarIsNamed) {
  const PipedTars tars({2});
  const auto tar = tars.paths()[0].string();
  const auto bytes = fs::file_size(tar);
  write_text(tars.folder() / "a.tar.gz", gzip(read_text(tar)));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"head -c 700 " + tar, "truncated"},
      {fmt::format("head -c {} {}", bytes - 1024, tar), "truncated"},  // all but the end's mark
      {"true", "truncated"},
      {"echo text; head -c 600 /dev/zero", "not a tar archive"},
      {"cat " + tars.folder().text("a.tar.gz"), "gzip -dc"},
      {"cat " + tar + " " + tar, "one tar a command"},
      {"cat " + tar + "; exit 9", "exit status 9"}};
  for (const auto& [command, why] : cases) {
    expect_contains(error_of<RunError>([&] { index_without_retry(command); }), {"pipe:", why});
    EXPECT_FALSE(load_pipe_index(command)) << command;
  }
  index_without_retry("gzip -dc < " + tars.folder().text("a.tar.gz"));
}

TEST(PipeSource, AFailureIsTriedAgain) {
  const PipedTars tars({6});
  const auto tar = tars.paths()[0].string(), flag = tars.folder().text("flag");
  // Writes half of it at first.
  const auto command =
      fmt::format("if [ -e {0} ]; then cat {1}; else touch {0}; head -c {2} {1}; fi", flag, tar,
                  fs::file_size(tar) / 2);
  expect_contains(error_of<RunError>([&] { index_without_retry(command); }), {"truncated"});
  fs::remove(flag);
  index_pipes({command}, {.retries = PipedTars::no_pause(1)});
  const PipeSource patient({command}, {}, PipedTars::no_pause(1));
  fs::remove(flag);
  std::vector<int64_t> images;
  patient.read(0, 0, 6, [&](int64_t image, const auto&) { return images.push_back(image), true; },
               {});
  EXPECT_EQ(images, (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  fs::remove(flag);
  const PipeSource hasty({command}, {}, PipedTars::no_pause(0));
  expect_contains(error_of<RunError>([&] { hasty.load(5); }), {"pipe:", "truncated"});
}

TEST(PipeSource, ImagesThatWereNotCountedAreNotRead) {
  const PipedTars tars({3});
  const auto source = tars.open();
  const auto contents = png_text(dead_leaves(7, 0, PipedTars::kSide));
  for (const auto& files :
       {TarFiles{{"other.png", contents}}, TarFiles{{"even/0000.png", contents}},
        TarFiles{{"even/0000.png", contents + " "}}}) {
    write_text(tars.paths()[0], make_tar(files));
    expect_contains(error_of<RunError>([&] { images_read(*source); }),
                    {"0.tar", "nsvq images index --again"});
  }
}

TEST(PipeSource, CommandsAreExpanded) {
  const auto commands = [](std::vector<std::string> items) {
    Sources sources(std::move(items));
    sources.pipes_allowed = true;
    return commands_of(sources);
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(commands({"pipe:aws s3 cp s3://b/x-{08..10}.tar -"}),
            (Texts{"aws s3 cp s3://b/x-08.tar -", "aws s3 cp s3://b/x-09.tar -",
                   "aws s3 cp s3://b/x-10.tar -"}));
  EXPECT_EQ(commands({"pipe:cat {a,b}/{0..1}.tar"}),
            (Texts{"cat a/0.tar", "cat a/1.tar", "cat b/0.tar", "cat b/1.tar"}));
  EXPECT_EQ(commands({"pipe:cat b", "pipe:cat a"}), (Texts{"cat b", "cat a"}));
  // What is the shell's stays as it is, commas among it.
  for (const auto* text : {"cat a,b", "cat ${X}", "cat ${X:-a,b}", "awk '{print $1, $2}'",
                           "{ cat a; cat b; }", "x { y", "x } y", "sed 's/{/,/'", "cat {a}"}) {
    EXPECT_EQ(commands({std::string("pipe:") + text}), Texts{text});
  }
  EXPECT_EQ(commands({"pipe:awk '{print $1}' {a,b}"}),
            (Texts{"awk '{print $1}' a", "awk '{print $1}' b"}));
  expect_contains(error_of([&] { commands({"pipe: "}); }), {"no command"});
  expect_contains(error_of([&] { commands({"pipe:cat {0..999}{0..999}{0..999}"}); }), {"too many"});
  expect_contains(error_of([&] { commands({"pipe:cat a", "photos/"}); }), {"photos/"});
}

TEST(PipeSource, IsOpenedOnlyIfAllowed) {
  const PipedTars tars({2});
  const auto source = tars.open();
  tars.shards_read();
  Sources sources = "pipe:" + tars.commands()[0];
  expect_contains(error_of([&] { open_source(sources); }), {"pipe:", "--allow-pipe"});
  EXPECT_TRUE(tars.shards_read().empty());
  sources.pipes_allowed = true;
  EXPECT_EQ(open_source(sources)->size(), 2);
}

}  // namespace
}  // namespace nsvq
