// `nsvq info` of runs, models and tokens, and of files that are none.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/file.h"
#include "nsvq/tokenizer/open_model.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

TEST(Info, ShowsARunsModelFiguresAndSettings) {
  const TemporaryFolder folder;
  const auto recipe = (folder / "tiny.yaml").string(), run_folder = (folder / "run").string();
  write_text(recipe, to_yaml(tiny_config()));
  ASSERT_EQ(run({"train", recipe, "train.epochs=1", "--run", run_folder}).code, 0);
  const auto shown = run({"info", run_folder});
  ASSERT_EQ(shown.code, 0) << shown.error;
  expect_contains(shown.out, {"grid         8x8\n", "stride       2\n", "codes        32\n",
                              "finished     yes\n", "checked      yes\n", "sha256       ",
                              "encoder      ", "psnr", "quantizer:"});
  EXPECT_EQ(shown.out.find("lfq"), std::string::npos) << "of another quantizer";

  const auto of_run = json::parse(run({"info", run_folder, "--json", "-"}).out);
  EXPECT_GT(of_run.at("figures").at("psnr").get<double>(), 0);
  EXPECT_EQ(of_run.at("settings").at("quantizer").at("type"), tiny_config().quantizer.type);

  const auto exported = (folder / "exported.safetensors").string();
  ASSERT_EQ(run({"export", run_folder, "--out", exported}).code, 0);
  const auto of_file = json::parse(run({"info", exported, "--json", "-"}).out);
  EXPECT_EQ(of_file.at("sha256"), of_run.at("sha256"));
  EXPECT_FALSE(of_file.contains("finished"));

  const auto tokens = (folder / "tokens").string();
  ASSERT_EQ(
      run({"tokenize", exported, "--data", "builtin:dead-leaves?size=16&count=3", "--out", tokens})
          .code,
      0);
  const auto of_tokens = json::parse(run({"info", tokens, "--json", "-"}).out);
  EXPECT_EQ(of_tokens.at("model"), of_run.at("sha256"));
  EXPECT_EQ(of_tokens.at("images"), 3);
  EXPECT_EQ(of_tokens.at("complete"), true);
  expect_contains(run({"info", tokens}).out, {"grid         8x8\n", "images       3\n"});

  // The model is whole, whatever happened to the training state.
  const auto checkpoint = list_checkpoints(run_folder).back();
  write_text(checkpoint / "state.json", "damaged");
  EXPECT_EQ(run({"info", run_folder}).code, 0);
  EXPECT_EQ(run({"eval", run_folder, "--data", "builtin:dead-leaves?size=16&count=3"}).code, 0);
}

TEST(Info, SaysWhatAForeignFileIs) {
  const TemporaryFolder folder;
  const auto torch_file = folder / "model.ckpt", pickle = folder / "old.pt";
  write_text(torch_file, std::string("PK\x03\x04") + std::string(100, '\0'));
  write_text(pickle, std::string("\x80\x02\x8a\x0a") + std::string(100, '\0'));
  const auto recipe = folder / "recipe.yaml";
  write_text(recipe, to_yaml(tiny_config()));
  expect_failure(run({"info", torch_file}), 2, {torch_file, "a PyTorch file", "save_file"});
  expect_failure(run({"info", pickle}), 2, {"a Python pickle", "save_file"});
  expect_failure(run({"info", recipe}), 2, {recipe, "a text (a recipe?)"});
  expect_failure(run({"import", torch_file, "--like", recipe, "--out", folder / "model/"}), 2,
                 {"a PyTorch file"});
}

}  // namespace
}  // namespace nsvq
