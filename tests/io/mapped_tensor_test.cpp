#include "nsvq/io/formats/mapped_tensor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/safetensors.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"

namespace nsvq {
namespace {

TEST(MappedTensor, IsTheTensorOfTheFile) {
  const TemporaryFolder folder;
  const auto file = folder / "a.safetensors";
  const auto tokens = at::arange(24, at::kShort).view({2, 3, 4}).view(at::kUInt16);
  write_safetensors(file, {{{"tokens", tokens},
                            {"keys", at::arange(5, at::kByte)},
                            {"classes", at::arange(2, at::kLong)},
                            {"none", at::empty({0, 4}, at::kInt)}},
                           {}});
  for (const char* name : {"tokens", "keys", "classes", "none"}) {
    const auto mapped = map_tensor(file, name);
    const auto read = read_safetensors(file).tensors.at(name);
    ASSERT_EQ(mapped.scalar_type(), read.scalar_type()) << name;
    ASSERT_EQ(mapped.sizes(), read.sizes()) << name;
    EXPECT_EQ(0, std::memcmp(mapped.data_ptr(), read.data_ptr(), read.nbytes())) << name;
  }
  const auto kept = map_tensor(file, "classes");
  std::filesystem::remove(file);
  EXPECT_EQ(kept[1].item<int64_t>(), 1) << "as long as the tensor lives";
}

TEST(MappedTensor, OfADamagedFileIsRefused) {
  const TemporaryFolder folder;
  const auto file = folder / "a.safetensors";
  write_safetensors(file, {{{"tokens", at::arange(24, at::kInt)}}, {}});
  expect_contains(error_of([&] { map_tensor(file, "classes"); }), {"a.safetensors", "'classes'"});
  write_text(file, read_text(file).substr(0, 60));
  expect_contains(error_of([&] { map_tensor(file, "tokens"); }), {"a.safetensors"});
  expect_contains(error_of([&] { map_tensor(folder / "b.safetensors", "tokens"); }),
                  {"b.safetensors"});
}

}  // namespace
}  // namespace nsvq
