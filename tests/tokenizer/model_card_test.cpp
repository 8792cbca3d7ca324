// A model's folder as Hugging Face's hub shows it.
#include "nsvq/tokenizer/exchange/model_card.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/tokenizer/foreign_models.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

TEST(ModelCard, HasWhatAUserOfTheFolderNeeds) {
  const TemporaryFolder folder;
  auto config = tiny_config();
  config.quantizer.codes = 30;
  write_card({config, random_tokenizer(config), "x"}, folder / "my tokenizer", "");
  const auto files = files_of_card(folder / "my tokenizer");
  for (const auto& file : files) EXPECT_TRUE(std::filesystem::exists(file)) << file;
  EXPECT_EQ(load_model(files[0]).config.quantizer.codes, 30);
  const auto json = nlohmann::json::parse(read_text(files[1]));
  EXPECT_EQ(json.at("model").at("latent_dim"), 8);
  EXPECT_EQ(json.at("nsvq").at("stride"), 2);
  expect_contains(read_text(files[2]), {"def load(", "config.json"});
  expect_contains(
      read_text(files[3]),
      {"---\nlibrary_name: nsvq\n", "# my tokenizer\n", "from 0 to 29",
       "16x16 pixels\nmake 8x8 tokens, 64 in all, of 4.907 bits each (314 bits an image)",
       "vectors of 8 channels", "| `quantizer.type` | nsvq |", "No figures were given"});
}

TEST(ModelCard, TakesTheFiguresOfAnEvaluation) {
  const TemporaryFolder folder;
  const auto config = tiny_config();
  const LoadedModel model{config, random_tokenizer(config), "x"};
  const auto file = folder / "eval.json";
  write_text(file,
             R"({"model": "m", "data": "photos/|x", "images": 7, "psnr": 21.456, "ssim": 0.5})");
  expect_contains(model_card(model, "a", file),
                  {"Figures of `nsvq eval` on 7 images, photos/\\|x.", "| PSNR | 21.46 dB |"});
  for (const auto* text : {"{}", "[1]", "3", R"({"psnr": "high"})"}) {
    write_text(file, text);
    expect_contains(error_of([&] { model_card(model, "a", file); }),
                    {"--eval", "eval.json", "holds no figures"});
  }
  write_text(file, "{");
  expect_contains(error_of([&] { model_card(model, "a", file); }), {"eval.json"});
}

TEST(ModelCard, SaysHowBitsAreCounted) {
  const auto lfq = foreign_models().at(9).config;
  expect_contains(model_card({lfq, random_tokenizer(lfq), "x"}, "a", ""),
                  {"from 0 to 63", "Bit k of a token (of value 2^k)"});
  auto none = tiny_config();
  none.quantizer.type = "none";
  expect_contains(model_card({none, random_tokenizer(none), "x"}, "a", ""), {"no tokens"});
}

}  // namespace
}  // namespace nsvq
