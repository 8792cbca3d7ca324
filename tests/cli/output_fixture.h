#pragma once

#include <gtest/gtest.h>

#include <string>

#include "nsvq/core/temporary_folder.h"
#include "tests/cli/model_file.h"
#include "tests/train/tiny.h"

namespace nsvq {

/// A model and images for commands that write something.
class OutputTest : public testing::Test {
 protected:
  void SetUp() override { write_model_file(model_, tiny_config()); }

  TemporaryFolder folder_;
  std::string model_ = folder_ / "model.safetensors";
  std::string data_ = "builtin:dead-leaves?size=16&count=3&seed=1";
};

}  // namespace nsvq
