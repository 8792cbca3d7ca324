// What commands print and write: JSON on standard output, full disks, progress.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "nsvq/cli/arguments/memory_advice.h"
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

/// What torch says where `bytes` cannot be had on a CPU.
std::string error_on_cpu(int64_t bytes) {
  return fmt::format(
      "[enforce fail at alloc_cpu.cpp:119] err == 0. DefaultCPUAllocator: can't allocate memory: "
      "you tried to allocate {} bytes. Error code 12 (Cannot allocate memory)",
      bytes);
}

TEST(OutOfMemoryAdvice, NamesHalfOfThePresentBatch) {
  const auto error = error_on_cpu(int64_t{64} << 30);
  note_table({});  // of earlier tests
  note_batch_size("--batch-size ", 24);
  EXPECT_EQ(explain_out_of_memory(error),
            "out of memory: 64.00 GiB asked for; try --batch-size 12, half of the present batch");
  note_batch_size("train.batch_size=", 16, "a lower unet.width");
  expect_contains(explain_out_of_memory(error),
                  {"try train.batch_size=8,", ", or a lower unet.width"});
  note_batch_size("train.batch_size=", 1, "a lower unet.width");
  expect_contains(explain_out_of_memory(error), {"asked for; try a lower unet.width"});
}

TEST(OutOfMemoryAdvice, IsOfWhatDidNotFit) {
  QuantizerConfig quantizer;
  quantizer.codes = 16777216;
  note_table_of(quantizer, 512);
  note_networks("model.width");
  const std::string of_codebook =
      "the codebook of 16,777,216 x 512 takes 32 GiB; lower quantizer.codes or model.latent_dim";
  const auto codebook = explain_out_of_memory(error_on_cpu(int64_t{32} << 30));
  expect_contains(codebook, {"out of memory: " + of_codebook});
  EXPECT_EQ(codebook.find("batch"), std::string::npos) << codebook;
  const auto networks = explain_out_of_memory(error_on_cpu(int64_t{3} << 30));
  EXPECT_EQ(networks,
            "out of memory: 3.00 GiB asked for while the networks, their averages and optimizers "
            "are made; lower model.width");
  // Within steps: a tensor of the codebook's size, a GPU's text, and images beside such a codebook.
  note_batch_size("train.batch_size=", 8);
  expect_contains(explain_out_of_memory(error_on_cpu(int64_t{32} << 30)), {of_codebook});
  const std::string gpu =
      "CUDA out of memory. Tried to allocate {} GiB. GPU 0 has a total capacity of 79.10 GiB of "
      "which 1.25 GiB is free. Of the allocated memory {} GiB is allocated by PyTorch.";
  expect_contains(explain_out_of_memory(fmt::format(fmt::runtime(gpu), "32.00", "64.00")),
                  {"out of memory on the GPU: " + of_codebook});
  expect_contains(
      explain_out_of_memory(fmt::format(fmt::runtime(gpu), "2.00", "77.00")),
      {"2.00 GiB asked for, 1.25 GiB free of 79.10 GiB; the codebook of 16,777,216 x 512 takes 32 ",
       ": lower quantizer.codes or model.latent_dim, or try train.batch_size=4, half of"});
  // A small codebook is no cause.
  note_table_of({}, 16);
  EXPECT_EQ(explain_out_of_memory(fmt::format(fmt::runtime(gpu), "2.00", "77.00")),
            "out of memory on the GPU: 2.00 GiB asked for, 1.25 GiB free of 79.10 GiB; try "
            "train.batch_size=4, half of the present batch");
  // Nor one that is not there.
  quantizer.type = "lfq";
  note_table_of({}, 16);
  note_table_of(quantizer, 16);
  EXPECT_EQ(explain_out_of_memory(error_on_cpu(int64_t{32} << 30)).find("codebook"),
            std::string::npos);
}

/// This process gets `more` bytes of addresses beyond those it has.
class MemoryLimit {
 public:
  explicit MemoryLimit(rlim_t more) {
    getrlimit(RLIMIT_AS, &before_);
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit = before_;
    limit.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + more;
    setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

TEST_F(Output, MemoryThatTheCodebookOfARunTakesIsNamed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the process where memory runs out";
#endif
  const auto recipe = (folder_ / "tiny.yaml").string(), run_folder = (folder_ / "run").string();
  write_text(recipe, to_yaml(tiny_config()));
  const MemoryLimit limit(rlim_t{16} << 30);
  expect_failure(run({"train", recipe, "quantizer.codes=16777216", "model.latent_dim=512",
                      "device=cpu", "--run", run_folder}),
                 3,
                 {"out of memory: the codebook of 16,777,216 x 512 takes 32 GiB; lower "
                  "quantizer.codes or model.latent_dim"});
  EXPECT_FALSE(fs::exists(run_folder));
}

}  // namespace
}  // namespace nsvq
