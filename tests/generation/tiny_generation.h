#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/generation/generator_trainer.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/npy.h"
#include "nsvq/tokenizer/inference_session.h"
#include "nsvq/tokens/tokenize.h"
#include "tests/tokenizer/tiny_tokenizer.h"
#include "tests/train/network_runs.h"

namespace nsvq {

/// Settings of a generator that trains in a second or two, on images of 16x16 by a tokenizer of
/// grids of 4x4.
inline GenerationConfig tiny_generation_config(const std::filesystem::path& tokenizer = {},
                                               const std::string& family = "masked") {
  GenerationConfig config;
  config.tokenizer = tokenizer.string();
  config.device = "cpu";  // whose figures tests compare; a GPU would take bf16
  config.threads = 1;
  config.data.train = "builtin:dead-leaves?size=16&count=24";
  config.data.val = "builtin:dead-leaves?size=16&count=7&seed=1";
  config.data.size = 16;
  config.data.crop = "center";
  config.data.flip = false;
  config.generator.family = family;
  config.generator.width = 32;
  config.generator.depth = 2;
  config.generator.heads = 2;
  config.optimizer.lr = 1e-3;
  config.optimizer.ema_decay = 0.9;
  config.train.batch_size = 8;
  config.train.epochs = 2;
  config.train.log_every = 1;
  config.train.samples = 3;
  return config;
}

/// Writes integers of any shape as a .npy file.
inline std::string write_npy(const std::filesystem::path& file, const torch::Tensor& numbers) {
  const auto all = numbers.to(at::kInt).contiguous();
  auto text = npy_header(all);
  text.append(static_cast<const char*>(all.data_ptr()), all.nbytes());
  write_text(file, text);
  return file.string();
}

/// Makes a folder of the tokens of a source.
inline std::string write_token_folder(const std::filesystem::path& folder,
                                      const std::filesystem::path& tokenizer,
                                      const std::string& source, int64_t shard_size = 10000) {
  InferenceSession session(tokenizer, "cpu");
  TokenizeOptions options;
  options.out = folder;
  options.loader = session.loader_options();
  options.shard_size = shard_size;
  options.loader.batch_size = std::min(options.loader.batch_size, shard_size);
  tokenize(session, open_source(source), options);
  return folder.string();
}

/// Trains in a folder, or goes on there.
inline Outcome train_generator(const GenerationConfig& config, const std::filesystem::path& run,
                               const Loop::Hook& hook = {}) {
  return train_network<GeneratorTrainer>(config, run, hook);
}

}  // namespace nsvq
