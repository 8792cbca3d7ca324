// `nsvq weights` without network and Python: shell scripts stand for the latter. What needs Python
// is in tests/python/weights_command.py.
#include "nsvq/nn/weights.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/losses/lpips.h"
#include "nsvq/nn/features/feature_net.h"
#include "nsvq/nn/features/inception.h"
#include "tests/cli/run.h"
#include "tests/environment.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

TensorMap tensors_of(const torch::nn::Module& module) {
  TensorMap tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value();
  return tensors;
}

class WeightsCommand : public testing::Test {
 protected:
  std::string write(const std::string& name, const TensorMap& tensors) {
    write_safetensors(folder_ / name, {tensors, {}});
    return folder_ / name;
  }

  /// An executable of this shell script, to be run as Python: $1 is scripts/weights.py, $2 its
  /// command, $3 the source, $4 the store or the file to write.
  std::string python(const std::string& script) {
    write_text(folder_ / "python", "#!/bin/sh\n" + script + "\n");
    fs::permissions(folder_ / "python", fs::perms::owner_all);
    return folder_ / "python";
  }

  TemporaryFolder folder_, scratch_;
  fs::path stored_ = folder_ / "a store";
  Environment store_{"NSVQ_WEIGHTS", stored_}, temporary_{"TMPDIR", scratch_.path()};
  Environment no_python_{"NSVQ_PYTHON", "/no/python"};
  TensorMap squeezenet_ = tensors_of(*feature_net_kind("squeeze").make());
};

TEST_F(WeightsCommand, ListsWhatIsThereAndWhatIsNot) {
  save_weights("squeezenet1_1", {squeezenet_, "somewhere", false});
  save_weights("alexnet", {squeezenet_, "PyPI", true});
  save_weights("lpips-vgg", {squeezenet_, "PyPI", true});
  auto bytes = read_file(stored_ / "lpips-vgg.safetensors");
  bytes.back() ^= std::byte{1};
  write_file(stored_ / "lpips-vgg.safetensors", bytes);
  const auto result = run({"weights", "list"});
  EXPECT_EQ(result.code, 0);
  expect_contains(result.out, {stored_.string() + "\n", "missing; run `nsvq weights get lpips-vgg`",
                               "other values, from somewhere", "official values, from PyPI",
                               "damaged; run `nsvq weights get lpips-vgg`"});
}

TEST_F(WeightsCommand, ImportsSafetensors) {
  auto tensors = squeezenet_;
  tensors["classifier.1.weight"] = at::zeros({1000, 512, 1, 1});
  tensors["features.0.bias"] = at::ones({64}, at::kHalf);
  const auto file = write("my net.safetensors", tensors);
  const auto result = run({"weights", "import", file, "--as", "squeezenet1_1"});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"squeezenet1_1: other values, sha256 ", stored_});
  const auto weights = load_weights("squeezenet1_1");
  EXPECT_EQ(weights.source, "my net.safetensors");
  EXPECT_FALSE(weights.official);
  EXPECT_EQ(weights.tensors.size(), squeezenet_.size());
  EXPECT_TRUE(at::equal(weights.tensors.at("features.0.bias"), at::ones({64})));
  EXPECT_TRUE(at::equal(weights.tensors.at("features.12.expand3x3.weight"),
                        squeezenet_.at("features.12.expand3x3.weight")));
}

TEST_F(WeightsCommand, ImportsHeadsUnderEitherName) {
  const auto heads = tensors_of(LpipsHeads(feature_net_kind("alex").channels));
  TensorMap renamed;
  for (const auto& [name, value] : heads) renamed[name.substr(0, 4) + ".model.1.weight"] = value;
  for (const auto& tensors : {heads, renamed}) {
    const auto file = write("heads.safetensors", tensors);
    ASSERT_EQ(run({"weights", "import", file, "--as", "lpips-alex"}).code, 0);
    const auto loaded = load_weights("lpips-alex").tensors;
    ASSERT_EQ(loaded.size(), 5u);
    for (const auto& [name, value] : heads) EXPECT_TRUE(at::equal(loaded.at(name), value)) << name;
  }
}

/// pytorch-fid's file has the classifier, others may not.
TEST_F(WeightsCommand, ImportsTheHeadOfInceptionWithIt) {
  auto tensors = tensors_of(Inception());
  const auto import = [](const std::string& file, const std::string& as = "inception") {
    return run({"weights", "import", file, "--as", as});
  };
  tensors["fc.weight"] = at::ones({1000, 2048});  // torchvision's
  tensors["fc.bias"] = at::ones({1000});
  const auto other = write("torchvision.safetensors", tensors);
  auto result = import(other);
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out,
                  {"inception: other values",
                   other + " has no fc.weight [1008, 2048], the classifier, which the inception "
                           "score (--metrics is) needs",
                   "pt_inception-2015-12-05-6726825d.pth has it\n"});
  EXPECT_THROW(weights_origin("inception-fc"), UserError);
  expect_failure(import(other, "inception-fc"), 2, {"fc.weight", "[1000, 2048], not [1008, 2048]"});
  const auto head = tensors_of(InceptionHead());
  for (const auto& [name, value] : head) tensors[name] = value;
  result = import(write("whole.safetensors", tensors));
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"inception: other values", "inception-fc: other values"});
  EXPECT_EQ(result.out.find("has no"), std::string::npos) << result.out;
  const auto stored = load_weights("inception-fc").tensors;
  EXPECT_EQ(stored.size(), 2u);
  EXPECT_TRUE(at::equal(stored.at("fc.weight"), head.at("fc.weight")));
}

TEST_F(WeightsCommand, RefusesWrongFiles) {
  auto tensors = squeezenet_;
  tensors["features.3.squeeze.weight"] = at::zeros({16, 65, 1, 1});
  const auto wrong = write("wrong.safetensors", tensors);
  const auto import_wrong = run({"weights", "import", wrong, "--as", "squeezenet1_1"});
  expect_failure(import_wrong, 2, {wrong, "features.3.squeeze.weight", "[16, 65, 1, 1]"});
  tensors.erase("features.3.squeeze.weight");
  const auto short_file = write("short.safetensors", tensors);
  expect_failure(run({"weights", "import", short_file, "--as", "squeezenet1_1"}), 2,
                 {short_file, "features.3.squeeze.weight", "missing"});
  expect_failure(run({"weights", "import", wrong, "--as", "vgg16"}), 2, {wrong, "features."});
  expect_failure(run({"weights", "import", wrong, "--as", "squeezenet"}), 2,
                 {"'squeezenet'", "squeezenet1_1"});
  expect_failure(run({"weights", "import", folder_ / "none.pth", "--as", "vgg16"}), 2,
                 {"none.pth"});
  for (const auto* name : {"folder", "folder.safetensors"}) {
    fs::create_directories(folder_ / name);
    expect_failure(run({"weights", "import", folder_ / name, "--as", "vgg16"}), 2,
                   {name, "a folder", ".pth"});
  }
  write_text(folder_ / "text.safetensors", "not safetensors at all");
  expect_failure(run({"weights", "import", folder_ / "text.safetensors", "--as", "vgg16"}), 2,
                 {"text.safetensors"});
  EXPECT_FALSE(fs::exists(stored_));
}

TEST_F(WeightsCommand, MistakesGetOneLine) {
  expect_failure(run({"weights"}), 2, {});
  expect_failure(run({"weights", "fetch"}), 2, {});
  expect_failure(run({"weights", "get"}), 2, {"NAME"});
  expect_failure(run({"weights", "import", "a.pth"}), 2, {"--as"});
  expect_failure(run({"weights", "get", "vgg16"}), 2, {"vgg16", "lpips-vgg, lpips-alex"});
  expect_failure(run({"weights", "get", "squeezenet1_1"}), 2,
                 {"run `nsvq weights import squeezenet1_1-b8a52dc0.pth --as squeezenet1_1`"});
}

TEST_F(WeightsCommand, WhatIsThereIsNotFetched) {
  save_weights("lpips-vgg", {squeezenet_, "PyPI", true});
  save_weights("vgg16", {squeezenet_, "mine", false});
  const auto result = run({"weights", "get", "lpips-vgg"});
  EXPECT_EQ(result.code, 0) << result.error;
  expect_contains(result.out,
                  {"lpips-vgg: there already\n", "vgg16: there already, but with other"});
}

TEST_F(WeightsCommand, FailuresOfPythonGetOneLine) {
  const auto get = [this](const std::string& script) {
    const Environment python_("NSVQ_PYTHON", python(script));
    return run({"weights", "get", "lpips-vgg"});
  };
  expect_failure(get("echo 'pip cannot; is the network there?' >&2; exit 3"), 3, {"pip cannot"});
  expect_failure(get("echo 'sha256 of x' >&2; exit 2"), 2, {"sha256 of x"});
  expect_failure(get("exit 1"), 3, {"python ended with code 1"});
  expect_failure(get("kill -INT $$"), 3, {"interrupted"});
  expect_failure(get("exit 0"), 2, {"no weights vgg16"});
  const auto no_python = run({"weights", "get", "lpips-vgg"});
  EXPECT_EQ(no_python.code, 2);
  expect_contains(no_python.error, {"cannot run /no/python", "NSVQ_PYTHON"});
  EXPECT_FALSE(fs::exists(stored_));
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

TEST_F(WeightsCommand, TheScriptGetsItsArguments) {
  // Quotes, spaces and dollar signs reach it unchanged.
  const auto file = folder_ / "it's $HOME.pth";
  write_text(file, "x");
  const auto script =
      "test -f \"$1\" && test \"$2\" = read && test -f \"$3\" && echo \"$3\" >&2; exit 2";
  const Environment python_("NSVQ_PYTHON", python(script));
  expect_failure(run({"weights", "import", file, "--as", "vgg16"}), 2, {"it's $HOME.pth"});
}

TEST_F(WeightsCommand, AProgramWithoutItsSourceTreeSaysWhatToDo) {
  const Environment moved("NSVQ_WEIGHTS_SCRIPT", folder_ / "gone/scripts/weights.py");
  const Environment python_("NSVQ_PYTHON", python("exit 0"));
  expect_failure(run({"weights", "get", "lpips-vgg"}), 2,
                 {"gone/scripts/weights.py", "NSVQ_WEIGHTS_SCRIPT"});
  write_text(folder_ / "some.pth", "x");
  expect_failure(run({"weights", "import", folder_ / "some.pth", "--as", "vgg16"}), 2,
                 {"gone/scripts/weights.py"});
}

TEST_F(WeightsCommand, GetAsksForWhatIsMissingAndChecksIt) {
  const auto& kind = feature_net_kind("alex");
  const auto made = folder_ / "made";
  {
    const Environment store("NSVQ_WEIGHTS", made);
    save_weights("alexnet", {tensors_of(*kind.make()), "a package", true});
    save_weights("lpips-alex", {tensors_of(LpipsHeads(kind.channels)), "a package", true});
  }
  save_weights("lpips-alex", {tensors_of(LpipsHeads(kind.channels)), "mine", false});
  const auto copy = fmt::format(
      "test \"$2 $3 $5 $6\" = 'get lpips-alex alexnet ' && cp '{}'/$5.safetensors \"$4\"",
      made.string());
  const Environment fake("NSVQ_PYTHON", python(copy));
  const auto result = run({"weights", "get", "lpips-alex"});
  expect_failure(result, 2, {"a package: its alexnet are not the official values"});
  expect_contains(result.out, {"lpips-alex: there already, but with other"});
  EXPECT_FALSE(fs::exists(stored_ / "alexnet.safetensors"));
}

TEST_F(WeightsCommand, FidsNetworkIsOfficialByItsValues) {
  const auto file = write("inception.safetensors", tensors_of(Inception()));
  const auto imported = run({"weights", "import", file, "--as", "inception"});
  ASSERT_EQ(imported.code, 0) << imported.error;
  expect_contains(imported.out, {"inception: other values"});
  expect_contains(run({"weights", "get", "inception"}).out, {"there already, but with other"});
}

}  // namespace
}  // namespace nsvq
