#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/train/vq/trainer.h"

namespace nsvq {

/// Trains from the start to the end in a folder; the last evaluation.
inline std::map<std::string, double> train(const TokenizerConfig& config,
                                           const std::filesystem::path& run) {
  return Trainer(config, run, make_single_group()).loop().train().evaluation;
}

class TrainerTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::filesystem::path run_ = folder_.path() / "run";
};

}  // namespace nsvq
