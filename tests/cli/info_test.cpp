// `nsvq info` of runs, models and tokens, and of files that are none.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/io/images/image.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/open_model.h"
#include "tests/cli/model_file.h"
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
  EXPECT_EQ(run({"eval", run_folder, "--data", tiny_config().data.val.text()}).code, 0);
}

TEST(Info, ShowsClassesOfTokensAndSingleShards) {
  const TemporaryFolder folder;
  const auto model = folder / "model.safetensors", photos = folder / "photos";
  write_model_file(model, tiny_config());
  const auto picture = encode_png(open_source("builtin:dead-leaves?size=16&count=1")->load(0));
  for (const std::string name : {"bee/1.png", "cat/2.png", "cat/3.png"})
    write_file(photos / name, picture);
  const auto tokens = folder / "tokens", shard = tokens / "tokens-00000.safetensors";
  ASSERT_EQ(run({"tokenize", model, "--data", photos, "--out", tokens}).code, 0);
  expect_contains(run({"info", tokens}).out, {"classes      2: bee, cat\n"});
  EXPECT_EQ(json::parse(run({"info", tokens, "--json"}).out).at("classes"),
            json::array({"bee", "cat"}));

  const auto shown = run({"info", shard});
  EXPECT_EQ(shown.code, 0) << shown.error;
  expect_contains(shown.out, {"images       3\n", "grid         8x8\n", "dtype        uint8\n",
                              "a shard of tokens", "bee/1.png", "cat/3.png"});
  fs::copy(shard, folder / "alone.safetensors");
  const auto alone = json::parse(run({"info", folder / "alone.safetensors", "--json", "-"}).out);
  EXPECT_EQ(alone.at("images"), 3);
  fs::resize_file(shard, fs::file_size(shard) - 1);
  expect_failure(run({"info", shard}), 2, {shard, "a shard of tokens that has", "bytes"});
}

TEST(Info, SaysWhatAForeignFileIs) {
  const TemporaryFolder folder;
  const auto torch_file = folder / "model.ckpt", pickle = folder / "old one.pt";
  write_text(torch_file, std::string("PK\x03\x04") + std::string(100, '\0'));
  write_text(pickle, std::string("\x80\x02\x8a\x0a") + std::string(100, '\0'));
  const auto recipe = folder / "recipe.yaml";
  write_text(recipe, to_yaml(tiny_config()));
  expect_failure(run({"info", torch_file}), 2, {torch_file, "a PyTorch file"});
  expect_failure(run({"export", torch_file, "--out", folder / "x.safetensors"}), 2,
                 {"a PyTorch file", "`nsvq info " + torch_file.string() + "`", "nsvq import"});
  expect_failure(run({"info", pickle}), 2,
                 {pickle, "a Python pickle that torch.save has not written"});
  expect_failure(run({"info", recipe}), 2, {recipe, "a text (a recipe?)"});
  expect_failure(run({"import", torch_file, "--recipe", recipe, "--out", folder / "model/"}), 2,
                 {"a PyTorch file"});
}

TEST(Info, TakesAFolderOfAnotherProgram) {
  const TemporaryFolder folder;
  const auto named = (folder / "vqvae").string();
  const TensorMap tensors = {{"encoder.down_blocks.0.resnets.0.conv1.weight", at::zeros({4, 3})},
                             {"quantize.embedding.weight", at::zeros({8, 2})}};
  write_safetensors(folder / "vqvae/diffusion_pytorch_model.safetensors", {tensors, {}});
  const auto shown = run({"info", named});
  EXPECT_EQ(shown.code, 0) << shown.error;
  expect_contains(shown.out, {"diffusers' VQModel", "tensors      2\n", "codes        8\n"});
  expect_failure(run({"export", named, "--out", folder / "x.safetensors"}), 2,
                 {"another program's weights", "`nsvq import " + named + "`"});
  const auto cosmos = folder / "cosmos";
  write_safetensors(cosmos / "encoder.jit",
                    {{{"encoder.conv_in.weight", at::zeros({4, 48, 3, 3})}}, {}});
  write_safetensors(cosmos / "decoder.jit",
                    {{{"decoder.conv_out.weight", at::zeros({48, 4, 3, 3})}}, {}});
  expect_contains(run({"info", cosmos}).out, {"tensors      2\n", "Cosmos'"});
  expect_contains(run({"info", cosmos / "encoder.jit"}).out,
                  {"Cosmos' encoder is recognised", "importable   no\n", "decoder.jit"});
}

TEST(Info, CountsWhatAnotherProgramsFileHolds) {
  const TemporaryFolder folder;
  const auto file = (folder / "last.safetensors").string();
  const auto one = [](int64_t a, int64_t b) { return at::zeros({a, b}); };
  write_safetensors(file, {{{"encoder.down.0.block.0.conv1.bias", one(1, 4)},
                            {"encoder.conv_in.weight", one(4, 3)},
                            {"decoder.conv_in.weight", one(4, 2)},
                            {"quantize.embedding.weight", one(512, 16)},
                            {"loss.logvar", one(1, 1)}},
                           {}});
  const auto shown = run({"info", file});
  EXPECT_EQ(shown.code, 0) << shown.error;
  expect_contains(shown.out, {"layout       taming-transformers' VQGAN\n", "importable   yes\n",
                              "tensors      5\n", "codes        512\n", "latent_dim   16\n",
                              "encoder      16 parameters\n", "quantize     8192 parameters\n",
                              "loss         1 parameters\n",
                              "is recognised; `nsvq import FILE` makes a model of it"});
  const auto as_json = json::parse(run({"info", file, "--json", "-"}).out);
  EXPECT_EQ(as_json.at("parameters").at("decoder"), 8);
  EXPECT_EQ(as_json.at("importable"), true);

  const auto golden = fs::path(NSVQ_TESTS_DIR) / "../io/golden/pytorch/checkpoint.ckpt";
  const auto of_torch = run({"info", golden});
  EXPECT_EQ(of_torch.code, 0) << of_torch.error;
  expect_contains(of_torch.out,
                  {"part         state_dict\n", "layout       unknown\n", "tensors      2\n",
                   "weight       6 parameters\n", "its layout is not known"});
}

}  // namespace
}  // namespace nsvq
