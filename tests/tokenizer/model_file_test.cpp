#include "nsvq/tokenizer/model_file.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string_view>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/folder_checksums.h"
#include "nsvq/io/formats/contents_hash.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/members/code_bridge.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/inference_session.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/tokens/detokenize.h"
#include "nsvq/tokens/token_shard.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

const fs::path kStored = fs::path(NSVQ_TESTS_DIR) / "stored";

/// Images of the source as the model sees them, [n, 3, side, side].
torch::Tensor images_of(const std::string& spec, int side) {
  LoaderOptions options;
  options.transform.size = side;
  options.shuffle = false;
  options.batch_size = 1000;
  Loader loader(open_source(spec), options);
  return loader.next()->images;
}

TEST(StoredModels, OfEveryFormatOpen) {
  for (const auto& format : fs::directory_iterator(kStored)) {
    if (!format.is_directory()) continue;
    SCOPED_TRACE(format.path().string());
    InferenceSession session(format.path(), "cpu");
    const auto manifest = open_tokens(format.path() / "tokens", session.tokenizer(), false);
    const auto stored =
        read_token_shard(format.path() / "tokens" / manifest.shards.at(0).file, session.codes());
    const auto tokens = session.encode(images_of(manifest.source, 16));
    // Processors round differently, so a near tie may go another way.
    EXPECT_GE(tokens.eq(stored.tokens).to(at::kDouble).mean().item<double>(), 0.97);
    EXPECT_EQ(session.decode(stored.tokens).sizes(), at::IntArrayRef({3, 3, 16, 16}));
  }
  for (int format = 0; format < kModelFormat; ++format) {
    EXPECT_TRUE(fs::exists(kStored / fmt::format("format-{}", format))) << format;
  }
}

TEST(StoredModels, OfFormat1KeepWhatHasBecomeASetting) {
  EXPECT_EQ(load_model(kStored / "format-1").config.quantizer.of<BridgeConfig>().variant, "vit");
  const auto cvq = load_model(kStored / "format-1-cvq").config.quantizer;
  EXPECT_EQ(cvq.type, "cvq");
  EXPECT_EQ(cvq.of<CvqConfig>().distance, "l2");
  EXPECT_EQ(TokenizerConfig().quantizer.of<CvqConfig>().distance, "cosine");
  EXPECT_EQ(TokenizerConfig().quantizer.of<BridgeConfig>().variant, "dit");
}

TEST(StoredModels, OfALaterFormatAreRefused) {
  const TemporaryFolder folder;
  const auto file = folder / "model.safetensors";
  auto contents = read_safetensors(kStored / "format-0" / "model.safetensors");
  contents.metadata["nsvq.format"] = std::to_string(kModelFormat + 1);
  write_safetensors(file, contents);
  const auto message = error_of([&] { load_model(file); });
  EXPECT_NE(message.find("use a newer nsvq"), std::string::npos) << message;
}

TEST(StoredModels, OfMoreThanTheirBytesAreNotBuilt) {
  const TemporaryFolder folder;
  const auto file = folder / "model.safetensors";
  const auto error_with = [&](const std::function<void(TokenizerConfig&)>& change) {
    auto contents = read_safetensors(kStored / "format-0" / "model.safetensors");
    auto config = parse_config(contents.metadata.at("nsvq.config"), "x");
    change(config);
    contents.metadata["nsvq.config"] = to_yaml(config);
    write_safetensors(file, contents);
    return error_of([&] { load_model(file); });
  };
  for (const auto& message :
       {error_with([](TokenizerConfig& config) { config.model.width = 4096; }),
        error_with([](TokenizerConfig& config) {
          config.quantizer.codes = 1 << 24;
          config.model.latent_dim = 64;
        })})
    EXPECT_NE(message.find("far larger than its"), std::string::npos) << message;
}

// Pictures of such a model would be black.
TEST(StoredModels, WithoutNumbersAreRefused) {
  const TemporaryFolder folder;
  const auto file = folder / "model.safetensors";
  const auto stored = open_model_file(kStored / "format-1").contents;
  const auto change = [&](const torch::Tensor& bias) {
    auto contents = stored;
    contents.metadata.erase("nsvq.contents_sha256");
    contents.tensors.at("decoder.conv_out.bias") = bias;
    add_contents_hash(contents);
    write_safetensors(file, contents);
    return error_of<UserError>([&] { load_model(file); });
  };
  const auto bias = stored.tensors.at("decoder.conv_out.bias");
  auto spoilt = bias.clone();
  spoilt[0] = NAN;
  expect_contains(change(spoilt), {file.string(), "decoder.conv_out.bias", "NaN"});
  expect_contains(change(bias.to(at::kLong)), {file.string(), "decoder.conv_out.bias", "Long"});
}

TEST(FindModel, ReadsTheModelAloneAndNotTheTrainingState) {
  const TemporaryFolder folder;
  const auto checkpoint = folder / "checkpoints/step-3";
  fs::create_directories(checkpoint);
  fs::copy(kStored / "format-0" / "model.safetensors", checkpoint / "model.safetensors");
  write_text(checkpoint / "training.safetensors", "moments");
  write_checksums(checkpoint);
  write_text(checkpoint / "training.safetensors", "damaged");
  EXPECT_EQ(open_model_file(folder.path()).path, checkpoint / "model.safetensors");
  write_text(checkpoint / "model.safetensors", "damaged");
  EXPECT_NE(error_of([&] { open_model_file(folder.path()); }), "");
}

/// A model file with a hash of its contents, of a tiny recipe.
void write_small_model(const fs::path& path) {
  const auto config = tiny_config();
  write_model(path, named_tensors(*Tokenizer(config)), config);
}

TEST(FindModel, FindsAnyDamagedByteWhereverTheFileLies) {
  const TemporaryFolder folder;
  const auto path = folder / "copied.safetensors";
  write_small_model(path);
  EXPECT_EQ(open_model_file(path).path, path);
  const auto whole = read_file(path);
  uint64_t header = 0;
  std::memcpy(&header, whole.data(), sizeof(header));
  // Under another name the sha256 would be like any other text, and the file one without it.
  const std::string_view text(reinterpret_cast<const char*>(whole.data()), whole.size());
  const std::string_view name = "nsvq.contents_sha256";
  const size_t name_begin = text.find(name), name_end = name_begin + name.size();
  // Every 7th byte of names, shapes and configuration, and some of the weights.
  for (size_t at = 0; at < whole.size(); at += at < header ? 7 : whole.size() / 50) {
    if (at >= name_begin && at < name_end) continue;
    auto damaged = whole;
    damaged[at] ^= std::byte{1};
    write_file(path, damaged);
    const auto error = error_of([&] { open_model_file(path); });
    EXPECT_NE(error.find(path.string()), std::string::npos) << "byte " << at << ": " << error;
  }
}

TEST(FindModel, SaysThatAFileOfOtherWeightsIsDamaged) {
  const TemporaryFolder folder;
  const auto path = folder / "model.safetensors";
  write_small_model(path);
  auto contents = read_safetensors(path);
  contents.tensors.at("quantizer.codebook").mul_(2);
  write_safetensors(path, contents);
  EXPECT_NE(error_of([&] { load_model(path); }).find("model.safetensors: damaged"),
            std::string::npos);
}

TEST(FindModel, NeedsNoManifestWhereTheModelHasAContentsHash) {
  const TemporaryFolder folder;
  const auto checkpoint = folder / "checkpoints/step-3";
  write_small_model(checkpoint / "model.safetensors");
  write_text(checkpoint / "state.json", "damaged");
  write_text(checkpoint / "manifest.json", "damaged");
  EXPECT_EQ(open_model_file(folder.path()).path, checkpoint / "model.safetensors");
}

TEST(FindModel, DoesNotTakeAnOlderModelForOneThatCannotBeOpened) {
  const TemporaryFolder folder;
  write_small_model(folder / "checkpoints/step-3/model.safetensors");
  const auto newest = folder / "checkpoints/step-4";
  fs::create_directories(newest);
  // Root may read anything, so a link to itself stands for a file without permission.
  fs::create_symlink(newest / "model.safetensors", newest / "model.safetensors");
  const auto error = error_of([&] { open_model_file(folder.path()); });
  EXPECT_NE(error.find("cannot read " + (newest / "model.safetensors").string()), std::string::npos)
      << error;
  fs::remove(newest / "model.safetensors");
  EXPECT_EQ(open_model_file(folder.path()).path, folder / "checkpoints/step-3/model.safetensors");
}

TEST(InferenceSessionTest, RestoresTorchsFlags) {
  at::globalContext().setDeterministicCuDNN(false);
  at::globalContext().setAllowTF32CuDNN(true);
  const int threads = at::get_num_threads();
  {
    InferenceSession session(kStored / "format-0", "cpu");
    EXPECT_TRUE(at::globalContext().deterministicCuDNN());
    EXPECT_FALSE(at::globalContext().allowTF32CuDNN());
    EXPECT_FALSE(session.encode(at::zeros({1, 3, 16, 16})).requires_grad());
    EXPECT_EQ(session.reconstruct(at::zeros({2, 3, 32, 16})).sizes(),
              at::IntArrayRef({2, 3, 32, 16}));
  }
  EXPECT_FALSE(at::globalContext().deterministicCuDNN());
  EXPECT_TRUE(at::globalContext().allowTF32CuDNN());
  EXPECT_EQ(at::get_num_threads(), threads);
}

// A checkpoint's manifest knows its model, which may be whole and yet of another run.
TEST(OpenModel, AModelOfAnotherCheckpointIsNotTaken) {
  const TemporaryFolder folder;
  const auto run = folder / "run", newest = run / "checkpoints/step-2";
  for (const char* step : {"step-1", "step-2"}) {
    const auto checkpoint = run / "checkpoints" / step;
    fs::create_directories(checkpoint);
    write_model(checkpoint / "model.safetensors", {{"encoder.x", at::ones({2})}},
                TokenizerConfig{});
    write_checksums(checkpoint);
  }
  EXPECT_EQ(open_model_file(run).path, newest / "model.safetensors");
  write_model(newest / "model.safetensors", {{"encoder.x", at::zeros({2})}}, TokenizerConfig{});
  EXPECT_EQ(open_model_file(run).path, run / "checkpoints/step-1/model.safetensors");
  EXPECT_NE(error_of([&] { open_model_file(newest); }).find("damaged"), std::string::npos);
}

TEST(OpenModel, TheBestIsACheckpointOfItsRun) {
  const TemporaryFolder folder;
  const auto run = folder / "run", other = folder / "other";
  for (const auto& one : {run, other}) {
    fs::create_directories(one / "checkpoints/step-1");
    write_model(one / "checkpoints/step-1/model.safetensors", {{"encoder.x", at::ones({2})}},
                TokenizerConfig{});
  }
  const auto best = run / "checkpoints/best";
  write_text(best, "step-1\n");
  EXPECT_EQ(open_model_file(best).path, run / "checkpoints/step-1/model.safetensors");
  for (const std::string name :
       {std::string("../../other/checkpoints/step-1"), (other / "checkpoints/step-1").string()}) {
    write_text(best, name);
    EXPECT_NE(error_of([&] { open_model_file(best); }).find("names no checkpoint"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace nsvq
