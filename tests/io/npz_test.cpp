// Files that numpy wrote, and those of our own read by numpy, are in tests/python/npz.py.
#include "nsvq/io/formats/npz.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <fstream>

#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/npy.h"
#include "tests/error_of.h"

namespace nsvq {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_from(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// A .npy file of this header and these numbers.
Bytes npy(const std::string& dict, const std::vector<double>& numbers = {}, char version = 1) {
  std::string text = "\x93NUMPY";
  text += {version, 0, static_cast<char>(dict.size()), 0};
  if (version > 1) text += {0, 0};
  auto bytes = bytes_from(text + dict);
  const auto data = std::as_bytes(std::span(numbers));
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

std::string dict(const std::string& descr, const std::string& order, const std::string& shape) {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

/// Not by write_file, which waits for the disk.
void put(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

void expect_npy_error(const Bytes& bytes, const std::string& part) {
  const auto error = error_of([&] { parse_npy(bytes); });
  EXPECT_NE(error.find(part), std::string::npos) << error;
}

TEST(Npy, HeaderIsNumpys) {
  const auto header = npy_header(torch::zeros({5}, torch::kDouble));
  EXPECT_EQ(header.size() % 64, 0u);
  EXPECT_EQ(header.substr(10, 57), "{'descr': '<f8', 'fortran_order': False, 'shape': (5,), }");
  EXPECT_EQ(header.back(), '\n');
  EXPECT_NE(npy_header(torch::zeros({2, 3})).find("'<f4', 'fortran_order': False, 'shape': (2, 3)"),
            std::string::npos);
  EXPECT_NE(npy_header(torch::zeros({})).find("'shape': ()"), std::string::npos);
  EXPECT_THROW(npy_header(torch::zeros({2}, torch::kLong)), c10::Error);
}

TEST(Npy, ReadsRowsColumnsAndVersions) {
  const auto expected = torch::tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, torch::kDouble);
  const std::vector<double> numbers = {1, 2, 3, 4, 5, 6};
  for (const char version : {1, 2, 3}) {
    const auto rows = parse_npy(npy(dict("'<f8'", "False", "(2, 3)"), numbers, version));
    EXPECT_TRUE(torch::equal(rows, expected.view({2, 3})));
  }
  const auto columns = parse_npy(npy(dict("'<f8'", "True", "(2, 3)"), numbers));
  EXPECT_TRUE(torch::equal(columns, expected.view({3, 2}).t()));
  EXPECT_EQ(parse_npy(npy(dict("'<f8'", "False", "()"), {7})).item<double>(), 7);
  const auto two_ints = std::bit_cast<double>(std::array<int32_t, 2>{5, -6});
  const auto ints = parse_npy(npy(dict("'<i4'", "False", "(2,)"), {two_ints}), NpyNumbers::integer);
  EXPECT_TRUE(at::equal(ints, torch::tensor({5, -6}, torch::kInt32)));
  EXPECT_THROW(parse_npy(npy(dict("'<i4'", "False", "(2,)"), {two_ints})), UserError);
  EXPECT_THROW(parse_npy(npy(dict("'<f8'", "False", "()"), {7}), NpyNumbers::integer), UserError);
  EXPECT_EQ(parse_npy(npy(dict("'<f8'", "False", "(4, 0)"))).sizes(), torch::IntArrayRef({4, 0}));
}

TEST(Npy, RefusesHostileHeaders) {
  expect_npy_error({}, "no .npy");
  expect_npy_error(bytes_from("\x93NUMPX\1\0\0\0\0\0\0"), "no .npy");
  expect_npy_error(npy(dict("'<f8'", "False", "(1,)"), {1}, 9), "version 9");
  auto cut = npy(dict("'<f8'", "False", "(1,)"));
  cut.resize(20);
  expect_npy_error(cut, "cut off");
  for (const auto* type : {"'<i8'", "'>f8'", "'|O'", "'<f2'", "'<f8", "[('a', '<f8')]", ""}) {
    expect_npy_error(npy(dict(type, "False", "(1,)"), {1}), "an array of type");
  }
  expect_npy_error(npy("{'fortran_order': False, 'shape': (1,), }", {1}), "no 'descr'");
  expect_npy_error(npy(dict("'<f8'", "Maybe", "(1,)"), {1}), "fortran_order");
  for (const auto* shape :
       {"(-1,)", "(1", "1", "(1.5,)", "(,)", "(1,,1)", "(9999999999999999999,)", "(x,)"}) {
    expect_npy_error(npy(dict("'<f8'", "False", shape), {1}), "shape");
  }
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1,";
  expect_npy_error(npy(dict("'<f8'", "False", many + ")"), {1}), "shape");
  // Products that wrap around to the right number of bytes.
  expect_npy_error(npy(dict("'<f8'", "False", "(4294967296, 4294967296)")), "0 bytes");
  expect_npy_error(npy(dict("'<f8'", "False", "(3,)"), {1}), "8 bytes of numbers");
  expect_npy_error(npy(dict("'<f8'", "False", "(1,)"), {1, 2}), "16 bytes of numbers");
}

class NpzFile : public testing::Test {
 protected:
  std::string error() {
    const auto message = error_of([&] { read_npz(path_, {"mu", "sigma"}); });
    EXPECT_NE(message.find(path_), std::string::npos) << message;
    return message;
  }
  void expect_error(const Bytes& bytes, const std::string& part) {
    put(path_, bytes);
    const auto message = error();
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "statistics.npz";
  TensorMap arrays_ = {{"mu", torch::arange(5, torch::kDouble) / 3},
                       {"sigma", torch::arange(25, torch::kFloat).view({5, 5}).t()}};
};

TEST_F(NpzFile, RoundTrip) {
  write_npz(path_, arrays_);
  const auto first = read_file(path_);
  const auto read = read_npz(path_, {"sigma", "mu"});
  ASSERT_EQ(read.size(), 2u);
  for (const auto& [name, array] : arrays_) {
    EXPECT_EQ(read.at(name).scalar_type(), array.scalar_type());
    EXPECT_TRUE(torch::equal(read.at(name), array)) << name;
  }
  write_npz(path_, arrays_);
  EXPECT_EQ(read_file(path_), first);
}

/// Written by the first version of this program, before libzip wrote the files.
TEST_F(NpzFile, ReadsFilesOfEarlierVersions) {
  const auto read = read_npz(NSVQ_TESTS_DIR "/golden/npz/version-0.1.npz",
                             {"mu", "sigma", "transposed", "single", "scalar", "empty"});
  const auto sigma = torch::arange(25, torch::kDouble).reshape({5, 5}) / 7;
  EXPECT_TRUE(torch::equal(read.at("mu"), torch::arange(5, torch::kDouble) / 3));
  EXPECT_TRUE(torch::equal(read.at("sigma"), sigma));
  EXPECT_TRUE(torch::equal(read.at("transposed"), sigma.t()));
  EXPECT_TRUE(torch::equal(read.at("single"), torch::full({1, 3}, 1.5)));
  EXPECT_EQ(read.at("scalar").item<double>(), -2);
  EXPECT_EQ(read.at("empty").sizes(), torch::IntArrayRef({3, 0}));
}

TEST_F(NpzFile, EmptyAndScalarArrays) {
  write_npz(path_, {{"mu", torch::zeros({0})}, {"sigma", torch::tensor(2.5, torch::kDouble)}});
  const auto read = read_npz(path_, {"mu", "sigma"});
  EXPECT_EQ(read.at("mu").sizes(), torch::IntArrayRef({0}));
  EXPECT_EQ(read.at("sigma").item<double>(), 2.5);
}

TEST_F(NpzFile, OptionalArraysMayBeMissing) {
  write_npz(path_, {{"mu", torch::zeros({2})}, {"count", torch::ones({1})}});
  const auto read = read_npz(path_, {"mu"}, {"count", "other"});
  EXPECT_EQ(read.size(), 2u);
  EXPECT_EQ(read.at("count").item<double>(), 1);
}

TEST_F(NpzFile, MissingFilesAndArraysAreNamed) {
  EXPECT_NE(error().find("statistics.npz"), std::string::npos);
  write_npz(path_, {{"mu", torch::zeros({2})}, {"other", torch::zeros({2})}});
  const auto message = error();
  EXPECT_NE(message.find("no array 'sigma'"), std::string::npos) << message;
  EXPECT_NE(message.find("mu.npy, other.npy"), std::string::npos) << message;
}

TEST_F(NpzFile, EveryTruncationIsOneLine) {
  write_npz(path_, arrays_);
  const auto whole = read_file(path_);
  for (size_t length = 0; length < whole.size(); ++length) {
    put(path_, std::span(whole).first(length));
    error();
  }
}

TEST_F(NpzFile, DamageIsOneLineOrChangesNothing) {
  write_npz(path_, arrays_);
  const auto whole = read_file(path_);
  Random random(1);
  for (int i = 0; i < 600; ++i) {
    auto damaged = whole;
    const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(whole.size())));
    damaged[at] ^= static_cast<std::byte>(1 + random.below(255));
    put(path_, damaged);
    try {
      // Times, versions and attributes of the zip file do not count; numbers have a checksum.
      const auto read = read_npz(path_, {"mu", "sigma"});
      for (const auto& [name, array] : arrays_) EXPECT_TRUE(torch::equal(read.at(name), array));
    } catch (const UserError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
}

TEST_F(NpzFile, RefusesWhatIsNoZipFile) {
  expect_error(bytes_from("mu"), "not a zip file");
  expect_error(Bytes(100000), "not a zip file");
  // An end record that points beyond the file.
  std::string end("PK\5\6", 4);
  end += std::string(4, '\0') + std::string("\1\0\1\0", 4) + std::string(8, '\x7f');
  expect_error(bytes_from(end + std::string(2, '\0')), "inconsistent");
}

/// A file of one array, with bytes of its entry in the directory at the end changed.
class NpzEntry : public NpzFile {
 protected:
  NpzEntry() {
    write_npz(path_, {{"mu", torch::zeros({2})}});
    bytes_ = read_file(path_);
    const auto* text = reinterpret_cast<const char*>(bytes_.data());
    entry_ = std::string_view(text, bytes_.size()).rfind("PK\1\2");
  }
  void set(size_t field, size_t count, uint64_t value) {
    std::memcpy(&bytes_.at(entry_ + field), &value, count);
  }
  static constexpr size_t kFlags = 8, kMethod = 10, kChecksum = 16, kPacked = 20, kSize = 24;

  Bytes bytes_;
  size_t entry_ = 0;
};

TEST_F(NpzEntry, RefusesSizesThatACompressedArrayCannotHave) {
  set(kMethod, 2, 8);
  set(kSize, 4, 0x3fffffff);
  expect_error(bytes_, "sizes do not add up");
  set(kSize, 4, 0x7fffffff);
  expect_error(bytes_, "sizes do not add up");
  set(kSize, 4, 0xffffffff);  // stands for a 64-bit size that is not there
  expect_error(bytes_, "");
  set(kMethod, 2, 12);
  set(kSize, 4, 0x3fffffff);
  expect_error(bytes_, "method 12");
}

TEST_F(NpzEntry, RefusesSizesThatAStoredArrayDoesNotHave) {
  set(kSize, 4, 0x3fffffff);
  expect_error(bytes_, "sizes do not add up");
  set(kPacked, 4, 0x3fffffff);
  expect_error(bytes_, "sizes do not add up");  // more than the file has, before memory is taken
  set(kSize, 4, 10);
  set(kPacked, 4, 10);
  expect_error(bytes_, "damaged");
}

TEST_F(NpzEntry, RefusesWrongChecksumsAndEncryption) {
  set(kChecksum, 4, 0x12345678);
  expect_error(bytes_, "CRC");
  set(kFlags, 2, 1);
  expect_error(bytes_, "encrypted");
}

/// A directory that claims more entries than a file of its size can have.
TEST_F(NpzEntry, RefusesNumbersOfEntriesThatTheFileCannotHave) {
  const auto end = bytes_.size() - 22;
  for (const auto field : {end + 8, end + 10}) bytes_[field] = bytes_[field + 1] = std::byte{0x7f};
  expect_error(bytes_, "");

  std::string claims("PK\6\6\x2c\0\0\0\0\0\0\0\x2d\0\x2d\0\0\0\0\0\0\0\0\0", 24);
  for (const uint64_t value : {uint64_t{1} << 40, uint64_t{1} << 40, uint64_t{46}, uint64_t{0}}) {
    claims.append(reinterpret_cast<const char*>(&value), 8);
  }
  claims += std::string("PK\6\7\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0", 20);
  claims += std::string("PK\5\6\0\0\0\0", 8) + std::string(12, '\xff') + std::string(2, '\0');
  expect_error(bytes_from(claims), "");
}

}  // namespace
}  // namespace nsvq
