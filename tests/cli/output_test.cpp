// What commands print and write: JSON on standard output, full disks, progress.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "nsvq/cli/arguments/values.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/images/image.h"
#include "tests/cli/output_fixture.h"
#include "tests/cli/run.h"
#include "tests/environment.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Output : public OutputTest {};

TEST_F(Output, AFullDiskBehindStandardOutputIsAnError) {
  const auto error = folder_ / "error.txt";
  const auto recipe = (folder_ / "tiny.yaml").string(), run_folder = (folder_ / "run").string();
  write_text(recipe, to_yaml(tiny_config()));
  write_text(run_folder + "/config.yaml", to_yaml(tiny_config()));
  const std::vector<std::string> commands = {"train --help", "config '" + recipe + "'",
                                             "runs '" + run_folder + "'",
                                             "info '" + model_ + "' --json -"};
  for (const auto& words : commands) {
    const auto command =
        fmt::format("'{}' {} >/dev/full 2>'{}'", NSVQ_PROGRAM, words, error.string());
    const int status = std::system(command.c_str());
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 3) << words;
    EXPECT_NE(read_text(error).find("cannot write to standard output: No space left on device"),
              std::string::npos)
        << words << ": " << read_text(error);
  }
}

TEST_F(Output, JsonOnStandardOutputIsAlone) {
  const auto out = (folder_ / "codes.safetensors").string();
  const std::vector<std::vector<std::string>> commands = {
      {"eval", model_, "--data", data_},
      {"compare", model_, model_, "--data", data_},
      {"images", "compare", data_, data_},
      {"info", model_},
      {"doctor"},
      {"codebook", "kmeans", model_, "--data", data_, "--codes", "4", "--out", out},
  };
  for (auto words : commands) {
    SCOPED_TRACE(words[0]);
    words.insert(words.end(), {"--json", "-"});
    const auto result = run(words);
    ASSERT_EQ(result.code, 0) << result.error;
    EXPECT_TRUE(json::parse(result.out).is_object()) << result.out;
    EXPECT_NE(result.error, "") << "the table is on standard error";
  }
  EXPECT_FALSE(fs::exists("-"));
  EXPECT_TRUE(json::parse(run({"info", model_, "--json"}).out).is_object()) << "without a name";
  EXPECT_TRUE(json::parse(run({"info", "--json", model_}).out).is_object());
  EXPECT_TRUE(json::parse(run({"info", model_, "--json", "/dev/stdout"}).out).is_object());
  expect_contains(run({"doctor", "--help"}).out, {"--json [FILE]"});
}

TEST_F(Output, FiguresOfEachImageGoToStandardOutput) {
  const std::vector<std::string> words = {"eval", model_, "--data", data_, "--per-image"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return run(more);
  };
  const auto csv = (folder_ / "figures.csv").string();
  ASSERT_EQ(with({csv}).code, 0);
  const auto json_file = (folder_ / "figures.json").string();
  const auto printed = with({"-", "--json", json_file});
  ASSERT_EQ(printed.code, 0) << printed.error;
  EXPECT_EQ(printed.out, read_text(csv));
  EXPECT_TRUE(json::parse(read_text(json_file)).is_object());
  expect_contains(printed.error, {"psnr "});
  expect_failure(with({"-", "--json", "-"}), 2, {"--per-image -", "--json -"});
  EXPECT_FALSE(fs::exists("-"));
}

TEST_F(Output, TheHomeFolderIsExpandedInOptions) {
  const Environment home("HOME", folder_.path());
  const Image image{16, 16, std::vector<uint8_t>(size_t{3} * 16 * 16, 99)};
  for (const char* name : {"a.png", "b.png"}) write_file(folder_ / name, encode_png(image));
  const auto result = run({"eval", "~/model.safetensors", "--data", "~/a.png,~/b.png",
                           "--json=~/figures.json", "--per-image", "~/figures.csv"});
  ASSERT_EQ(result.code, 0) << result.error;
  EXPECT_TRUE(fs::exists(folder_ / "figures.json"));
  expect_contains(read_text(folder_ / "figures.csv"), {"a.png", "b.png"});
  write_text(folder_ / "tiny.yaml", to_yaml(tiny_config()));
  ASSERT_EQ(run({"train", "~/tiny.yaml", "train.epochs=1", "--run=~/run"}).code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "run/config.yaml"));
  EXPECT_FALSE(fs::exists("~"));
}

TEST_F(Output, JsonGoesThroughLinksAndToDescriptors) {
  const auto link = folder_ / "link.json", target = folder_ / "target.json";
  write_text(target, "{\"old\": 1}");
  fs::create_symlink(target, link);
  ASSERT_EQ(run({"info", model_, "--force", "--json", link}).code, 0);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(json::parse(read_text(target)).is_object());

  const auto stream = folder_ / "stream.json";
  fs::create_symlink("/proc/self/fd/1", stream);
  const auto result = run({"info", model_, "--json", stream});
  ASSERT_EQ(result.code, 0) << result.error;
  EXPECT_TRUE(fs::is_symlink(stream));
  const auto begin = result.out.find("\n{");
  ASSERT_NE(begin, std::string::npos) << result.out;
  EXPECT_TRUE(json::parse(result.out.substr(begin)).at("codes").is_number());
}

/// A folder with images of these sizes and one file that is none.
fs::path photos_in(const TemporaryFolder& folder) {
  const auto photos = folder / "photos";
  for (const auto& [name, width, height] :
       {std::tuple{"a.png", 20, 17}, {"b.png", 33, 24}, {"c.png", 16, 16}}) {
    Image image{width, height, std::vector<uint8_t>(size_t{3} * width * height, 99)};
    write_file(photos / name, encode_png(image));
  }
  write_text(photos / "broken.png", "not an image");
  return photos;
}

TEST_F(Output, SkippedImagesAreNamed) {
  const auto photos = photos_in(folder_);
  write_file(photos / "dot.png", encode_png(Image{1, 1, std::vector<uint8_t>(3, 99)}));
  for (const auto* name : {"out", "grid.png"}) {
    const auto result = run({"reconstruct", model_, "--data", photos.string(), "--fit", "crop",
                             "--out", folder_ / name});
    EXPECT_EQ(result.code, 0) << result.error;
    expect_contains(result.error, {"skipping a broken image: ", "dot.png: 1 x 1 pixels"});
  }
}

TEST_F(Output, OneIsNotSpokenOfAsMany) {
  const auto result =
      run({"codebook", "kmeans", model_, "--data", "builtin:dead-leaves?size=16&count=1", "--codes",
           "4", "--iterations", "1", "--out", folder_ / "codes.safetensors"});
  EXPECT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {", 1 image\n", "k-means      1 iteration on"});
}

TEST_F(Output, ProgressEndsAtAllOfTheImagesAlsoWithBrokenOnes) {
  const auto photos = photos_in(folder_).string();
  const auto out = (folder_ / "out").string();
  expect_contains(run({"reconstruct", model_, "--data", photos, "--out", out}).error,
                  {"reconstruct 4/4 100%"});
  expect_contains(
      run({"reconstruct", model_, "--data", photos, "--out", out + "2", "--fit", "pad"}).error,
      {"reconstruct 4/4 100%"});
  expect_contains(run({"eval", model_, "--data", photos, "--batch-size", "1"}).error,
                  {"evaluation 4/4 100%"});
}

TEST_F(Output, AGridTakesImagesOfDifferentSizes) {
  const auto grid = folder_ / "grid.png";
  const auto result = run({"reconstruct", model_, "--data", photos_in(folder_).string(), "--fit",
                           "pad", "--out", grid.string()});
  ASSERT_EQ(result.code, 0) << result.error;
  const auto picture = read_image(grid);
  EXPECT_EQ(picture.width, 20 + 2 + 33 + 2 + 16);
  EXPECT_EQ(picture.height, 24 + 2 + 24);
}

TEST_F(Output, FiguresOfEachImageGoToACsvFile) {
  const auto photos = folder_ / "photos";
  for (const auto& [name, level] : {std::pair{"a, \"b\".png", 10}, {"c.png", 200}}) {
    Image image{16, 16, std::vector<uint8_t>(size_t{3} * 16 * 16, static_cast<uint8_t>(level))};
    write_file(photos / name, encode_png(image));
  }
  const auto csv = folder_ / "figures.csv";
  const auto result =
      run({"eval", model_, "--data", photos.string(), "--per-image", csv.string(), "--json", "-"});
  ASSERT_EQ(result.code, 0) << result.error;
  std::istringstream lines(read_text(csv));
  std::string title, first, second, rest;
  std::getline(lines, title);
  std::getline(lines, first);
  std::getline(lines, second);
  EXPECT_EQ(title, "key,psnr,ssim");
  EXPECT_TRUE(first.starts_with("\"a, \"\"b\"\".png\",")) << first;
  EXPECT_TRUE(second.starts_with("c.png,")) << second;
  EXPECT_FALSE(std::getline(lines, rest));
  const auto psnr = [](const std::string& line) {
    return std::stod(line.substr(line.find("png") + (line[0] == '"' ? 5 : 4)));
  };
  EXPECT_NEAR((psnr(first) + psnr(second)) / 2, json::parse(result.out).at("psnr").get<double>(),
              1e-4);
  expect_failure(run({"eval", model_, "--data", photos.string(), "--force", "--per-image",
                      csv.string(), "--metrics", "entropy"}),
                 2, {"--per-image", "entropy"});
}

TEST_F(Output, ErrorsAreOneLineWhateverTheNamesHold) {
  const auto result = run({"eval", folder_ / "a\nb\x1b[31m\u202ec", "--data", data_});
  expect_failure(result, 2, {"a\\x0ab\\x1b[31m\\xe2\\x80\\xaec", "no such run"});
}

TEST(OutOfMemoryAdvice, NamesHalfOfThePresentBatch) {
  const std::string error =
      "[enforce fail at alloc_cpu.cpp:119] err == 0. DefaultCPUAllocator: can't allocate memory: "
      "you tried to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)";
  note_batch_size("--batch-size ", 24);
  EXPECT_EQ(explain_out_of_memory(error),
            "out of memory: 64.00 GiB asked for; try --batch-size 12, half of the present batch");
  note_batch_size("train.batch_size=", 16, "a lower unet.width");
  expect_contains(explain_out_of_memory(error),
                  {"try train.batch_size=8,", ", or a lower unet.width"});
  note_batch_size("train.batch_size=", 1, "a lower unet.width");
  expect_contains(explain_out_of_memory(error), {"asked for; try a lower unet.width"});
}

}  // namespace
}  // namespace nsvq
