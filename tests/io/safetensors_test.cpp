#include "nsvq/io/formats/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"

namespace nsvq {
namespace {

std::string file_bytes(const std::string& header, const std::string& data) {
  const auto length = static_cast<uint64_t>(header.size());
  std::string text(sizeof(length), '\0');
  std::memcpy(text.data(), &length, sizeof(length));
  return text + header + data;
}

/// The error that a file of this header and data gives, less its start; empty when it loads.
std::string reading_error(const std::string& bytes) {
  static const TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  // Neither write_text nor overwriting: their syncs would make thousands of small files slow.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
  try {
    read_safetensors(path);
    return "";
  } catch (const UserError& error) {
    const std::string message = error.what(), start = "cannot read " + path + ": ";
    EXPECT_EQ(message.find(start), 0u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 400u) << message;
    return message.substr(std::min(start.size(), message.size()));
  }
}

std::string reading_error(const std::string& header, const std::string& data) {
  return reading_error(file_bytes(header, data));
}

std::string f32(const std::string& shape, const std::string& offsets) {
  return R"({"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

/// Equal values, dtype and shape; torch has no comparison for uint16.
void expect_same(const torch::Tensor& read, const torch::Tensor& expected) {
  ASSERT_EQ(read.scalar_type(), expected.scalar_type());
  ASSERT_EQ(read.sizes(), expected.sizes());
  EXPECT_TRUE(read.is_contiguous());
  EXPECT_TRUE(torch::equal(read.to(torch::kFloat64), expected.to(torch::kFloat64)));
}

TensorFile round_trip(const TensorFile& file) {
  TemporaryFolder folder;
  write_safetensors(folder / "a.safetensors", file);
  return read_safetensors(folder / "a.safetensors");
}

TensorFile small_file() {
  return {{{"a", torch::arange(3, torch::kFloat32)},
           {"b", torch::ones({2, 2}, torch::kBool)},
           {"c", torch::tensor(7, torch::kInt64)}},
          {{"step", "12"}}};
}

TEST(Safetensors, EveryDtype) {
  TensorFile file;
  for (const auto type :
       {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16, torch::kInt64,
        torch::kInt32, torch::kInt16, torch::kUInt16, torch::kInt8, torch::kUInt8, torch::kBool}) {
    file.tensors[torch::toString(type)] = torch::arange(33).remainder(2).to(type);
  }
  file.tensors["large"] = torch::tensor({65535, 40000}, torch::kInt32).to(torch::kUInt16);
  const TensorFile read = round_trip(file);
  ASSERT_EQ(read.tensors.size(), file.tensors.size());
  for (const auto& [name, tensor] : file.tensors) {
    SCOPED_TRACE(name);
    expect_same(read.tensors.at(name), tensor);
  }
}

TEST(Safetensors, OddShapes) {
  const auto grid = torch::arange(31 * 33, torch::kFloat32).reshape({31, 33});
  const TensorFile file{{{"scalar", torch::tensor(2.5)},
                         {"one", torch::ones({1})},
                         {"empty", torch::empty({0})},
                         {"empty matrix", torch::empty({3, 0, 2})},
                         {"transposed", grid.t()},
                         {"strided", grid.slice(1, 1, 30, 3)},
                         {"expanded", torch::tensor(1.5).expand({2, 3})},
                         {"needs gradient", torch::ones({2}, torch::requires_grad())}},
                        {}};
  const TensorFile read = round_trip(file);
  ASSERT_EQ(read.tensors.size(), file.tensors.size());
  for (const auto& [name, tensor] : file.tensors) {
    SCOPED_TRACE(name);
    expect_same(read.tensors.at(name), tensor);
    EXPECT_FALSE(read.tensors.at(name).requires_grad());
  }
}

TEST(Safetensors, FromCuda) {
  if (!torch::hasCUDA()) GTEST_SKIP() << "no GPU";
  const auto tensor = torch::arange(33, torch::kFloat32);
  expect_same(round_trip({{{"a", tensor.cuda()}}, {}}).tensors.at("a"), tensor);
}

TEST(Safetensors, NamesAndMetadata) {
  const TensorFile file{{{"quote\" and \u00fc\n", torch::ones({1})}, {"", torch::ones({2})}},
                        {{"config", "a: 1\nb: \"two\"\n"}, {"", ""}}};
  const TensorFile read = round_trip(file);
  EXPECT_EQ(read.metadata, file.metadata);
  EXPECT_EQ(read.tensors.size(), 2u);
  EXPECT_TRUE(read.tensors.contains("quote\" and \u00fc\n"));
}

TEST(Safetensors, NoTensors) {
  EXPECT_TRUE(round_trip({}).tensors.empty());
  EXPECT_EQ(round_trip({{}, {{"a", "b"}}}).metadata.at("a"), "b");
}

TEST(Safetensors, BytesAreStableAndAligned) {
  TemporaryFolder folder;
  write_safetensors(folder / "a", small_file());
  const std::string text = read_text(folder / "a");
  uint64_t length = 0;
  std::memcpy(&length, text.data(), sizeof(length));
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(text.size(), 8 + length + 8 + 12 + 4);
  const std::string header =
      R"({"__metadata__":{"step":"12"},"c":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"F32","shape":[3],"data_offsets":[8,20]},)"
      R"("b":{"dtype":"BOOL","shape":[2,2],"data_offsets":[20,24]}})";
  EXPECT_EQ(text.substr(8, header.size()), header);
  EXPECT_EQ(text.find_first_not_of(' ', 8 + header.size()), 8 + length);
}

TEST(Safetensors, RefusesToWriteWhatItCannot) {
  TemporaryFolder folder;
  const auto path = folder / "a.safetensors";
  const auto write = [&](const std::string& name, const torch::Tensor& tensor) {
    write_safetensors(path, {{{name, tensor}}, {}});
  };
  EXPECT_THROW(write("a", torch::ones({2}, torch::kComplexFloat)), RunError);
  EXPECT_THROW(write("a", torch::Tensor()), RunError);
  EXPECT_THROW(write("a", torch::eye(2).to_sparse()), RunError);
  EXPECT_THROW(write("__metadata__", torch::ones({1})), RunError);
  EXPECT_THROW(write("\xff", torch::ones({1})), RunError);
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THROW(write_safetensors("/dev/full", small_file()), RunError);
}

TEST(Safetensors, MissingFile) {
  EXPECT_THROW(read_safetensors("/nonexistent/a.safetensors"), UserError);
  EXPECT_THROW(read_safetensors("/"), UserError);
}

TEST(SafetensorsCorrupt, Header) {
  EXPECT_EQ(reading_error(""), "too short to be a safetensors file");
  EXPECT_NE(reading_error(std::string("\x09\0\0\0\0\0\0\0{}", 10)), "");
  EXPECT_NE(reading_error(std::string(8, '\xff')), "");
  EXPECT_NE(reading_error("", ""), "");
  EXPECT_NE(reading_error("[]", ""), "");
  EXPECT_NE(reading_error("{} x", ""), "");
  EXPECT_NE(reading_error("{\"a\":", ""), "");
  EXPECT_NE(reading_error("{\"\xff\":{}}", ""), "");
  EXPECT_NE(reading_error("{\"a\":1e999}", ""), "");
  EXPECT_NE(reading_error(std::string(100000, '['), ""), "");
  EXPECT_EQ(reading_error("{}   ", ""), "");
}

TEST(SafetensorsCorrupt, Metadata) {
  EXPECT_NE(reading_error(R"({"__metadata__":1})", ""), "");
  EXPECT_NE(reading_error(R"({"__metadata__":{"a":1}})", ""), "");
  EXPECT_NE(reading_error(R"({"__metadata__":{"a":"1","a":"2"}})", ""), "");
}

TEST(SafetensorsCorrupt, Fields) {
  EXPECT_EQ(reading_error(R"({"a":)" + f32("[1]", "[0,4]") + "}", "1234"), "");
  EXPECT_NE(reading_error(R"({"a":1})", ""), "");
  EXPECT_NE(reading_error(R"({"a":{}})", ""), "");
  EXPECT_NE(reading_error(R"({"a":{"dtype":"F32","shape":[0]}})", ""), "");
  EXPECT_EQ(reading_error(R"({"a\n":{"dtype":"F8","shape":[0],"data_offsets":[0,0]}})", ""),
            R"(tensor 'a\x0a': dtype 'F8' is not supported)");
  const std::string name(79, 'x');  // a longer one is not cut within a character
  EXPECT_EQ(reading_error("{\"" + name + "\u00e9y\":1}", ""),
            "tensor '" + name + "\u00e9...': its description is no object");
  for (const char* shape :
       {"[-1]", "[1.0]", "[\"1\"]", "[null]", "1", "{}", "[18446744073709551616]",
        "[9223372036854775808]", "[4294967296,4294967296,4294967296]", "[0,4294967296,4294967296]",
        "[2]", "[0]", "[[1]]"}) {
    EXPECT_NE(reading_error(R"({"a":)" + f32(shape, "[0,4]") + "}", "1234"), "") << shape;
  }
  std::string many = "[1";
  for (int i = 0; i < 100; ++i) many += ",1";
  EXPECT_NE(reading_error(R"({"a":)" + f32(many + "]", "[0,4]") + "}", "1234"), "");
}

TEST(SafetensorsCorrupt, Offsets) {
  for (const char* offsets : {"[4,0]", "[-4,0]", "[0]", "[0,4,8]", "4", "[1,5]", "[0,8]",
                              "[18446744073709551612,18446744073709551615]"}) {
    EXPECT_NE(reading_error(R"({"a":)" + f32("[1]", offsets) + "}", "1234"), "") << offsets;
  }
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":)" + f32("[1]", first) + R"(,"b":)" + f32("[1]", second) + "}";
  };
  EXPECT_EQ(reading_error(two("[4,8]", "[0,4]"), "12345678"), "");
  EXPECT_NE(reading_error(two("[0,4]", "[0,4]"), "1234"), "") << "overlap";
  EXPECT_NE(reading_error(two("[0,4]", "[2,6]"), "123456"), "") << "overlap";
  EXPECT_NE(reading_error(two("[0,4]", "[8,12]"), "123456789012"), "") << "gap";
  EXPECT_EQ(reading_error(two("[0,4]", "[4,8]"), "123456789"), "1 bytes follow the last tensor");
  EXPECT_NE(reading_error(two("[0,4]", "[4,8]"), "1234567"), "") << "too short";
}

TEST(SafetensorsCorrupt, DuplicateNames) {
  EXPECT_EQ(reading_error(R"({"a":)" + f32("[1]", "[0,4]") + R"(,"a":)" + f32("[1]", "[4,8]") + "}",
                          "12345678"),
            "the header: the name 'a' occurs twice");
  EXPECT_NE(
      reading_error(R"({"a":{"dtype":"F32","dtype":"F32","shape":[0],"data_offsets":[0,0]}})", ""),
      "");
}

TEST(SafetensorsCorrupt, ManyEmptyTensorsTakeNoLonger) {
  // Each would be looked for among all before it: minutes.
  std::string header = "{";
  for (int i = 0; i < 100'000; ++i)
    header += fmt::format("{}\"{}\":{}", i ? "," : "", i, f32("[0]", "[0,0]"));
  EXPECT_EQ(reading_error(header + "}", ""), "");
}

TEST(SafetensorsCorrupt, Bools) {
  const std::string header = R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})";
  EXPECT_EQ(reading_error(header, std::string("\0\1", 2)), "");
  EXPECT_NE(reading_error(header, std::string("\1\2", 2)), "");
}

TEST(SafetensorsCorrupt, EveryTruncationIsAnError) {
  TemporaryFolder folder;
  write_safetensors(folder / "a", small_file());
  const std::string text = read_text(folder / "a");
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_NE(reading_error(text.substr(0, size)), "") << size;
  }
  EXPECT_NE(reading_error(text + '\0'), "");
}

TEST(SafetensorsCorrupt, FlippedBytesLoadOrThrow) {
  TemporaryFolder folder;
  write_safetensors(folder / "a", small_file());
  const std::string text = read_text(folder / "a");
  Random random(1);
  int errors = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string changed = text;
    const int64_t flips = 1 + random.below(3);
    for (int64_t flip = 0; flip < flips; ++flip) {
      changed[random.below(static_cast<int64_t>(text.size()))] ^=
          static_cast<char>(1 + random.below(255));
    }
    errors += !reading_error(changed).empty();
  }
  EXPECT_GT(errors, 1000);
  EXPECT_LT(errors, 2000);
}

}  // namespace
}  // namespace nsvq
