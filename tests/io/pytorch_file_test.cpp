// Files of torch.save and torch.jit.save (tests/io/golden/pytorch.py), and hostile pickles.
#include "nsvq/io/formats/pytorch/pytorch_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/pytorch/pickle.h"
#include "nsvq/io/formats/zip_archive.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/npz_images.h"

namespace nsvq {
namespace {

using namespace std::string_literals;
namespace fs = std::filesystem;

fs::path golden(const std::string& name) {
  return fs::path(NSVQ_TESTS_DIR) / "golden/pytorch" / name;
}

torch::Tensor counted(std::vector<int64_t> shape, torch::ScalarType type = torch::kFloat) {
  int64_t count = 1;
  for (const auto size : shape) count *= size;
  return at::arange(count).reshape(shape).to(type);
}

void expect_same(const TensorMap& found, const TensorMap& expected) {
  EXPECT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_EQ(found.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(found.at(name), tensor)) << name;
    EXPECT_TRUE(found.at(name).is_contiguous()) << name;
  }
}

TEST(PytorchFile, HoldsAStateDict) {
  const auto rows = counted({4, 3});
  const TensorMap expected = {{"encoder.conv_in.weight", counted({2, 3})},
                              {"transposed", counted({2, 3}, torch::kDouble).t()},
                              {"first", rows.slice(0, 0, 2)},
                              {"last", rows.slice(0, 2).select(1, 1)},
                              {"half", counted({3}, torch::kHalf)},
                              {"bfloat", counted({3}, torch::kBFloat16)},
                              {"long", counted({2}, torch::kLong) - 1},
                              {"flags", torch::tensor({true, false})},
                              {"empty", torch::zeros({0, 2})},
                              {"single", torch::tensor(2.5F)}};
  for (const auto* name : {"plain.pt", "protocol-4.pt", "old.pt"}) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(is_pytorch_file(golden(name)));
    EXPECT_EQ(is_zip_file(golden(name)), std::string(name) != "old.pt");
    const auto contents = read_pytorch_names(golden(name));
    EXPECT_EQ(contents.part, "");
    EXPECT_EQ(contents.tensors.at("transposed").shape, (std::vector<int64_t>{3, 2}));
    EXPECT_EQ(contents.tensors.at("last").offset, 7);
    expect_same(read_pytorch(golden(name)), expected);
  }
}

TEST(PytorchFile, OfTheFirstVersionsIsATar) {
  EXPECT_TRUE(is_pytorch_file(golden("oldest.pt")));
  EXPECT_EQ(read_pytorch_names(golden("oldest.pt")).part, "state_dict");
  const auto rows = counted({4, 3});
  expect_same(read_pytorch(golden("oldest.pt")), {{"rows", rows},
                                                  {"last", rows.slice(0, 2).select(1, 1)},
                                                  {"transposed", counted({2, 3}).t()}});
}

TEST(PytorchFile, OfATrainingCheckpointItsStateDictCounts) {
  EXPECT_EQ(read_pytorch_names(golden("checkpoint.ckpt")).part, "state_dict");
  expect_same(read_pytorch(golden("checkpoint.ckpt")),
              {{"model.weight", counted({3, 2})}, {"model.bias", counted({3})}});
}

TEST(PytorchFile, OfADictBesideThemIsTheirMovingAverage) {
  const auto contents = read_pytorch_names(golden("averaged.pt"));
  EXPECT_EQ(contents.part, "model");
  EXPECT_EQ(contents.average_part, "ema");
  expect_same(read_pytorch(golden("averaged.pt")),
              {{"weight", counted({2})}, {"bias", counted({2})}});
  expect_same(read_pytorch(golden("averaged.pt"), true),
              {{"weight", counted({2}) + 5}, {"bias", counted({2}) + 5}});
  EXPECT_EQ(read_pytorch_names(golden("checkpoint.ckpt")).average_part, "");
  EXPECT_TRUE(read_pytorch(golden("checkpoint.ckpt"), true).empty());
}

TEST(PytorchFile, OfTorchScriptItsModulesAre) {
  expect_same(read_pytorch(golden("module.jit")),
              {{"encoder.weight", counted({2, 2})}, {"encoder.levels", counted({3}, torch::kInt)}});
}

TEST(PytorchFile, WhatIsNoneIsNamed) {
  const TemporaryFolder folder;
  const auto path = folder / "x.pt";
  EXPECT_FALSE(is_pytorch_file(golden("../pytorch.py")));
  fs::copy(fs::path(NSVQ_TESTS_DIR) / "golden/npz/version-0.1.npz", path);
  expect_contains(error_of([&] { read_pytorch_names(path); }), {"x.pt", "data.pkl"});
  expect_contains(error_of([&] { read_pytorch(folder / "gone.pt"); }), {"gone.pt"});
}

void write_bytes(const fs::path& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
}

TEST(PytorchFile, EveryTruncationIsOneLine) {
  const TemporaryFolder folder;
  const auto path = folder / "x.ckpt";
  for (const auto* name : {"checkpoint.ckpt", "old.pt", "oldest.pt"}) {
    const auto whole = read_file(golden(name));
    const auto written = [](std::byte byte) { return byte != std::byte{0}; };
    const auto padding =
        std::ranges::find_if(whole.rbegin(), whole.rend(), written) - whole.rbegin();
    for (size_t length = 0; length + padding < whole.size(); length += 7) {
      write_bytes(path, std::span(whole).first(length));
      expect_contains(error_of([&] { read_pytorch(path); }), {path.string()});
    }
  }
}

TEST(PytorchFile, OfAnotherOldVersionIsRefused) {
  const TemporaryFolder folder;
  auto bytes = read_file(golden("old.pt"));
  ASSERT_EQ(bytes.at(18), std::byte{0xe9});  // of 1001
  bytes[18] = std::byte{0xe8};
  write_bytes(folder / "x.pt", bytes);
  expect_contains(error_of([&] { read_pytorch(folder / "x.pt"); }), {"x.pt", "version", "1001"});
}

// Pickles by hand; the opcodes are those of Python's pickletools.

PytorchContents parse(const std::string& pickle) {
  return parse_pytorch_pickle(std::as_bytes(std::span(pickle)));
}
std::string error_in(const std::string& pickle) {
  return error_of([&] { parse(pickle); });
}

/// {"w": a tensor by `function` of the storage 0, offset `offset`, with two tuples of numbers}.
std::string tensor(const std::string& function, const std::string& offset, const std::string& shape,
                   const std::string& strides) {
  const std::string storage =
      "(U\7storagectorch\nFloatStorage\nU\1"
      "0U\3cpuK\6tQ";
  return "\x80\2}U\1wc" + function + "\n(" + storage + offset + shape + strides + "\x89}tRs.";
}
const std::string kTensorV2 = "torch._utils\n_rebuild_tensor_v2";
const std::string kZero("K\0", 2);

TEST(PytorchPickle, ATensorByHand) {
  const auto contents = parse(tensor(kTensorV2, "K\1", "K\2K\3\x86", "K\3K\1\x86"));
  ASSERT_EQ(contents.tensors.size(), 1u);
  const auto& found = contents.tensors.at("w");
  EXPECT_EQ(found.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(found.strides, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(found.offset, 1);
  EXPECT_EQ(found.storage, "0");
  expect_contains(error_in(tensor(kTensorV2, "J\xff\xff\xff\xff", "K\2\x85", "K\1\x85")),
                  {"'w'", "does not add up"});
  // A shape that is no tuple, one with -1, fewer strides than sizes.
  for (const std::string shape : {"N", "J\xff\xff\xff\xff\x85", "K\2K\3K\4\x87"}) {
    expect_contains(error_in(tensor(kTensorV2, "K\1", shape, "K\3K\1\x86")),
                    {"'w'", "does not add up"});
  }
}

TEST(PytorchPickle, NothingThatItNamesIsCalled) {
  // A call beside a tensor is a value like others, but where it can only be meant to do harm.
  const auto pickle = tensor(kTensorV2, kZero, "K\1\x85", "K\1\x85");
  const auto with_call = [&](const std::string& function) {
    return "\x80\2}U\1xc" + function + "\n(U\4exittRs" + pickle.substr(3);
  };
  EXPECT_EQ(parse(with_call("callbacks\nBest")).tensors.size(), 1u);
  for (const std::string harmless : {"builtins\nset", "collections\nOrderedDict", "osmnx\nGraph",
                                     "argparse\nNamespace", "functools\npartial"}) {
    EXPECT_EQ(parse(with_call(harmless)).tensors.size(), 1u) << harmless;
  }
  for (const std::string function :
       {"posix\nsystem", "os\nsystem", "os.path\njoin", "builtins\neval", "subprocess\nPopen",
        "builtins\n__import__", "__builtin__\ngetattr", "shutil\nrmtree", "io\nopen", "torch\nload",
        "torch.hub\nload", "operator\nattrgetter"}) {
    auto named = function;
    named[named.find('\n')] = '.';
    expect_contains(error_in(with_call(function)), {"'" + named + "'", "nothing of it was run"});
  }
  expect_contains(error_in("\x80\4U\5posixU\6system\x93U\4exit\x85R."), {"'posix.system'"});
  expect_contains(error_in(tensor("torch._utils\n_rebuild_qtensor", kZero, "K\1\x85", "K\1\x85")),
                  {"'w'", "_rebuild_qtensor"});
}

TEST(PytorchPickle, HostileOnesAreRefused) {
  for (const auto& pickle :
       {std::string(), std::string("\x80\2"), std::string("\x80\2."), std::string("\x80\2N"),
        std::string("\x80\1N."), std::string("\x80\2("), std::string("\x80\2t."),
        std::string("\x80\2h\1."), std::string("\x80\2K\1K\2s."), std::string("\x80\2}K\1u."),
        std::string("\x80\2}(K\1u."), std::string("\x80\2(K\1R."),
        std::string("\x80\2X\xff\xff\xff\xff."),
        std::string("\x80\2\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), std::string("\x80\2\xfe."),
        std::string("\x80\2cposix\nsystem")}) {
    EXPECT_FALSE(error_in(pickle).empty());
  }
  // A dict that contains itself, and dicts of twice the dict before: 33 million of them.
  expect_contains(error_in("\x80\2}q\1U\1ah\1s."), {"too deep"});
  std::string doubled = "\x80\2}q\1";
  for (int i = 0; i < 25; ++i) doubled += "}U\1ah\1sU\1bh\1sq\1";
  expect_contains(error_in(doubled + "."), {"too"});
}

// {"w": a tensor that a class and a parameter are wrapped around}, and one that contains itself.
TEST(PytorchPickle, WrappedTensorsAreRead) {
  const auto plain = tensor(kTensorV2, "K\1", "K\2\x85", "K\1\x85");
  const size_t at = plain.find("ctorch._utils"), end = plain.rfind("tRs.");
  const auto arguments = plain.substr(plain.find('\n', plain.find('\n') + 1) + 1);
  const auto call = plain.substr(at, end + 2 - at);
  const auto typed = "ctorch._tensor\n_rebuild_from_type_v2\n(" + ("c" + kTensorV2 + "\n") +
                     "ctorch\nTensor\n" + arguments.substr(0, arguments.size() - 3) + "}tR";
  for (const auto& made : {call, typed, "ctorch._utils\n_rebuild_parameter\n(" + call + "\x89}tR",
                           "ctorch._utils\n_rebuild_parameter\n(" + typed + "\x89}tR"}) {
    const auto contents = parse("\x80\2}U\1w" + made + "s.");
    EXPECT_EQ(contents.tensors.at("w").shape, std::vector<int64_t>{2});
  }
  expect_contains(error_in("\x80\2}U\1wctorch._utils\n_rebuild_parameter\n]q\1Rq\2h\1h\2a0s."),
                  {"'w'", "_rebuild_parameter"});
}

TEST(PytorchPickle, NamesOfAPickledModuleAreThoseOfItsStateDict) {
  const auto one = tensor(kTensorV2, "K\1", "K\2\x85", "K\1\x85");
  const auto call = one.substr(one.find("ctorch._utils"), one.rfind("s.") - one.find("ctorch"));
  const auto module = [](const std::string& state) { return "cx\nModule\n)\x81" + state + "b"; };
  const auto inner = module("}U\x0b_parameters}U\6weight" + call + "ss");
  const auto contents = parse("\x80\2" + module("}U\x08_modules}U\1a" + inner + "ss") + ".");
  ASSERT_EQ(contents.tensors.size(), 1u);
  EXPECT_EQ(contents.tensors.begin()->first, "a.weight");
}

std::string little_endian(size_t number) {
  std::string bytes(4, '\0');
  for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(number >> (8 * i));
  return bytes;
}

TEST(PytorchPickle, BombsAreRefusedBeforeTheyTakeMemory) {
  const size_t many = 2'000'001;
  expect_contains(error_in("\x80\2" + std::string(many, 'N') + "."), {"more than 2000000 values"});
  expect_contains(error_in("\x80\4N" + std::string(many, '\x94') + "."), {"remembers more than"});
  // A megabyte that a few bytes double.
  const auto large = "X" + little_endian(1 << 20) + std::string(1 << 20, 'a');
  expect_contains(error_in("\x80\4" + large + "\x94h\0\x93."s), {"name of more than 1000 bytes"});
  expect_contains(error_in("\x80\4}" + large + "}U\1aNss."), {"a name of 1048576 bytes"});
}

TEST(PytorchPickle, AMillionTensorsAreRefused) {
  const auto one = tensor(kTensorV2, kZero, "K\1\x85", "K\1\x85");
  auto pickle = one.substr(0, one.size() - 2) + "q\1s";  // remembered, and an item as it was
  for (size_t i = 0; i < 1'000'000; ++i)
    pickle += "X" + little_endian(4) + little_endian(i + (1 << 24)) + "h\1s";
  expect_contains(error_in(pickle + "."), {"more than 200000 tensors"});
}

// Many tensors of the same numbers: a few KB would become GiB.
TEST(PytorchFile, TensorsThatShareNumbersTakeNoMoreThanAFewTimesTheFile) {
  const TemporaryFolder folder;
  const auto path = folder / "shared.pt";
  constexpr int64_t count = 1 << 20;  // 4 MiB
  const auto write = [&](int copies) {
    const auto one = tensor(kTensorV2, kZero, "J" + little_endian(count) + "\x85", "K\1\x85");
    auto pickle = one.substr(0, one.size() - 2) + "q\1s";
    for (int i = 1; i < copies; ++i)
      pickle += "X" + little_endian(4) + little_endian((1u << 24) + i) + "h\1s";
    pickle += ".";
    const std::string numbers(count * sizeof(float), '\0');
    const auto zip = zip_text({{"x/data.pkl", pickle}, {"x/data/0", numbers}});
    write_bytes(path, std::as_bytes(std::span(zip)));
  };
  write(20);
  EXPECT_EQ(read_pytorch(path).size(), 20u);
  write(1000);
  EXPECT_EQ(read_pytorch_names(path).tensors.size(), 1000u);
  expect_contains(error_of([&] { read_pytorch(path); }), {"shared.pt", "far more memory"});
}

TEST(PytorchPickle, NumbersOfAnyWidth) {
  const auto number = [](const std::string& opcodes) {
    const auto pickle = "\x80\2" + opcodes + ".";
    const auto parsed = parse_pickle(std::as_bytes(std::span(pickle)));
    EXPECT_EQ(parsed.values.at(parsed.root).kind, PickleKind::number);
    return parsed.values.at(parsed.root).number;
  };
  EXPECT_EQ(number("J\xfe\xff\xff\xff"), -2);
  EXPECT_EQ(number("M\xff\xff"), 65535);
  EXPECT_EQ(number(std::string("\x8a\0", 2)), 0);
  EXPECT_EQ(number("\x8a\1\xff"), -1);
  EXPECT_EQ(number("\x8a\2\xff\x7f"), 32767);
  EXPECT_EQ(number("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"), INT64_MAX);
  EXPECT_EQ(number("\x88"), 1);
}

}  // namespace
}  // namespace nsvq
