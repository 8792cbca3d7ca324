#include "nsvq/recipe/classes.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/io/images/image.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<const Source> images_in(const fs::path& folder,
                                        const std::vector<std::string>& classes) {
  Image image{.width = 2, .height = 2, .pixels = {}};
  image.pixels.assign(12, 90);
  for (const auto& name : classes) {
    fs::create_directories(folder / name);
    write_image(folder / name / "1.png", image);
  }
  return open_source(folder.string());
}

TEST(Classes, ClassesOfValidationHaveTheNumbersOfTraining) {
  const TemporaryFolder folder;
  const std::vector<std::string> names = {"birds", "cats", "dogs"};
  const auto source = images_in(folder / "val", {"cats", "dogs"});
  EXPECT_EQ(source->label(0), 0);
  const auto numbered = numbered_as(source, names);
  EXPECT_EQ(numbered->label(0), 1);
  EXPECT_EQ(numbered->label(1), 2);
  EXPECT_EQ(numbered->classes(), names);
}

TEST(Classes, ClassesWithoutNamesKeepTheirNumbers) {
  const TemporaryFolder folder;
  const auto source = images_in(folder / "val", {"cats"});
  EXPECT_EQ(numbered_as(source, {}), source);
  const std::shared_ptr<const Source> drawn = open_source("builtin:dead-leaves?size=8&count=2");
  EXPECT_EQ(numbered_as(drawn, {"cats"}), drawn);
}

TEST(Classes, AClassThatTrainingLacksIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THROW(numbered_as(images_in(folder / "val", {"cats", "mice"}), {"cats"}), UserError);
}

}  // namespace
}  // namespace nsvq
