#include "nsvq/tokens/token_manifest.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"

namespace nsvq {
namespace {

TokenManifest some_manifest() {
  TokenManifest manifest;
  manifest.settings = {.model_sha256 = std::string(64, 'a'),
                       .codes = 300,
                       .grid_height = 2,
                       .grid_width = 5,
                       .image_height = 16,
                       .image_width = 40,
                       .images = 7,
                       .keys_sha256 = std::string(64, 'b'),
                       .shard_size = 4,
                       .batch_size = 2};
  manifest.source = "photos/";
  manifest.complete = true;
  manifest.shards = {{"tokens-00000.safetensors", 3, 123, std::string(64, 'c'), {"a/x.jpg"}},
                     {"tokens-00001.safetensors", 3, 99, std::string(64, 'd'), {}}};
  return manifest;
}

std::string error_of_reading(const std::filesystem::path& folder) {
  try {
    read_token_manifest(folder);
  } catch (const UserError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find(folder.string()), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  return "";
}

TEST(TokenManifest, RoundTrip) {
  const TemporaryFolder folder;
  write_token_manifest(folder.path(), some_manifest());
  const auto back = read_token_manifest(folder.path());
  EXPECT_FALSE(difference(back.settings, some_manifest().settings));
  EXPECT_EQ(back.source, "photos/");
  EXPECT_TRUE(back.complete);
  ASSERT_EQ(back.shards.size(), 2u);
  EXPECT_EQ(back.shards[0].broken, std::vector<std::string>{"a/x.jpg"});
  EXPECT_EQ(back.shards[1].bytes, 99u);

  const auto json = nlohmann::json::parse(read_text(folder / "manifest.json"));
  EXPECT_EQ(json.at("images"), 6);
  EXPECT_EQ(json.at("broken"), 1);
  EXPECT_EQ(json.at("dtype"), "uint16");
  EXPECT_EQ(json.at("grid"), nlohmann::json({2, 5}));
}

TEST(TokenManifest, HoldsNamesThatAreNotUtf8) {
  const TemporaryFolder folder;
  auto manifest = some_manifest();
  manifest.shards[0].broken = {"\xff.jpg"};
  write_token_manifest(folder.path(), manifest);
  EXPECT_EQ(read_token_manifest(folder.path()).shards[0].broken.size(), 1u);
}

TEST(TokenManifest, DifferencesAreNamed) {
  const auto one = some_manifest().settings;
  auto other = one;
  other.image_width = 48;
  EXPECT_EQ(difference(one, other).value().text, "image size (16x40 here, 16x48 there)");
  other.model_sha256 = std::string(64, 'f');
  EXPECT_EQ(difference(one, other)->text.substr(0, 5), "model");
}

TEST(TokenManifest, KeepsNamesOfClasses) {
  const TemporaryFolder folder;
  auto manifest = some_manifest();
  manifest.settings.classes = {"bee", "cat"};
  write_token_manifest(folder.path(), manifest);
  const auto back = read_token_manifest(folder.path()).settings;
  EXPECT_EQ(back.classes, manifest.settings.classes);

  auto other = back;
  other.classes = {"ant", "bee", "cat"};
  EXPECT_EQ(difference(back, other).value().text,
            "names of classes (class 0 is 'bee' here, 'ant' there)");
  other.classes = {"bee", "cat", "dog"};
  EXPECT_EQ(difference(back, other).value().text,
            "names of classes (class 2 is none here, 'dog' there)");
  other.classes = {};  // a manifest of an earlier version
  EXPECT_FALSE(difference(back, other));
}

/// Manifests of programs that read version 1 alone say "version": 1 exactly where nothing is new.
TEST(TokenManifest, ScalesGroupsAndVariantsMakeAnotherVersion) {
  const TemporaryFolder folder;
  const auto plain = some_manifest();
  EXPECT_EQ(plain.settings.shape(), (std::vector<int64_t>{2, 5}));
  const auto expect_kept = [&](const TokenManifest& manifest, const std::vector<int64_t>& shape,
                               const std::string& key) {
    write_token_manifest(folder.path(), manifest);
    EXPECT_EQ(read_token_manifest(folder.path()), manifest);
    const auto json = nlohmann::json::parse(read_text(folder / "manifest.json"));
    EXPECT_EQ(json.at("version"), key.empty() ? 1 : 2);
    for (const std::string one : {"grids", "groups", "variants"}) {
      EXPECT_EQ(json.contains(one), one == key) << one;
    }
    EXPECT_EQ(manifest.settings.shape(), shape);
  };
  expect_kept(plain, {2, 5}, "");
  auto scaled = plain, grouped = plain, cropped = plain;
  scaled.settings.scales = {{1, 1}, {2, 3}, {2, 5}};
  expect_kept(scaled, {17}, "grids");
  grouped.settings.groups = 4;
  expect_kept(grouped, {4, 2, 5}, "groups");
  cropped.settings.variants = {"left", "right", "center"};
  expect_kept(cropped, {3, 2, 5}, "variants");
  cropped.settings.groups = 2;
  cropped.settings.scales = scaled.settings.scales;
  EXPECT_EQ(cropped.settings.shape(), (std::vector<int64_t>{3, 2, 17}));

  const auto text = [&](const TokenManifest& manifest) {
    return difference(plain.settings, manifest.settings).value().text;
  };
  EXPECT_EQ(text(scaled), "grids (2x5 here, 1x1 2x3 2x5 there)");
  EXPECT_EQ(text(grouped), "groups of codes (1 here, 4 there)");
  cropped = plain;
  cropped.settings.variants = {"left"};
  EXPECT_EQ(text(cropped), "variants of images (variant 0 is none here, 'left' there)");
}

TEST(TokenManifest, WrongScalesGroupsAndVariantsAreRefused) {
  const TemporaryFolder folder;
  auto manifest = some_manifest();
  manifest.settings.scales = {{1, 1}, {2, 5}};
  manifest.settings.groups = 4;
  manifest.settings.variants = {"left"};
  write_token_manifest(folder.path(), manifest);
  const auto whole = nlohmann::json::parse(read_text(folder / "manifest.json"));
  const auto error_with = [&](const std::string& key, const std::string& value) {
    auto changed = whole;
    changed[key] = nlohmann::json::parse(value);
    write_text(folder / "manifest.json", changed.dump());
    return error_of_reading(folder.path());
  };
  EXPECT_EQ(error_with("groups", "3"), "");
  EXPECT_NE(error_with("groups", "0").find("groups is 0"), std::string::npos);
  EXPECT_NE(error_with("groups", "1.5").find("groups is 1.5"), std::string::npos);
  EXPECT_NE(error_with("grids", "[[0, 2]]").find("grids is 0"), std::string::npos);
  EXPECT_NE(error_with("grids", "[[2]]"), "");
  EXPECT_NE(error_with("grids", "7"), "");
  EXPECT_NE(error_with("variants", "10"), "");
  EXPECT_NE(error_with("grids", "[[65536, 65536], [1, 1]]").find("tokens an image"),
            std::string::npos);
}

TEST(TokenManifest, IsCreatedOnce) {
  const TemporaryFolder folder;
  EXPECT_TRUE(create_token_manifest(folder.path(), some_manifest()));
  auto other = some_manifest();
  other.source = "others/";
  EXPECT_FALSE(create_token_manifest(folder.path(), other));
  EXPECT_EQ(read_token_manifest(folder.path()), some_manifest());
}

TEST(TokenManifest, ARecordOfOneShardReadsBack) {
  const TemporaryFolder folder;
  const auto record = some_manifest().shards[0];
  write_shard_record(folder / "x.json", record);
  EXPECT_EQ(read_shard_record(folder / "x.json"), record);
  write_text(folder / "x.json", R"({"file": "../x"})");
  EXPECT_THROW(read_shard_record(folder / "x.json"), UserError);
}

TEST(TokenManifest, CutFilesAndWrongValuesAreRefused) {
  const TemporaryFolder folder;
  EXPECT_NE(error_of_reading(folder.path()).find("nsvq tokenize"), std::string::npos);
  write_token_manifest(folder.path(), some_manifest());
  const auto whole = read_text(folder / "manifest.json");
  const auto path = folder / "manifest.json";
  for (size_t size = 0; size + 2 < whole.size(); size += 11) {
    write_text(path, whole.substr(0, size));
    EXPECT_NE(error_of_reading(folder.path()), "") << size;
  }
  const auto replaced = [&](const std::string& from, const std::string& to) {
    auto text = whole;
    text.replace(text.find(from), from.size(), to);
    write_text(path, text);
    return error_of_reading(folder.path());
  };
  EXPECT_NE(replaced("\"version\": 1", "\"version\": 3").find("version 3"), std::string::npos);
  EXPECT_NE(replaced("nsvq-tokens", "else").find("no manifest"), std::string::npos);
  EXPECT_NE(replaced("\"codes\": 300", "\"codes\": 0").find("0"), std::string::npos);
  EXPECT_NE(replaced("\"batch_size\": 2", "\"batch_size\": \"2\""), "");
  EXPECT_NE(replaced("\"codes\": 300", "\"codes\": 1.9").find("codes is 1.9"), std::string::npos);
  EXPECT_NE(replaced("\"codes\": 300", "\"codes\": 1e300").find("codes is 1e+300"),
            std::string::npos);
  EXPECT_NE(replaced("\"bytes\": 123", "\"bytes\": -123").find("bytes is -123"), std::string::npos);
  EXPECT_NE(replaced("\"bytes\": 123", "\"bytes\": 123.0"), "");
  EXPECT_NE(replaced("tokens-00000.safetensors", "../../secret").find("no name"),
            std::string::npos);
  // What other programs may read instead of the shards' own figures.
  EXPECT_NE(replaced("\"dtype\": \"", "\"dtype\": \"x").find("'dtype'"), std::string::npos);
  EXPECT_NE(replaced("\"images\": ", "\"images\": 4").find("'images' is 4"), std::string::npos);
  EXPECT_NE(replaced("\"broken\": ", "\"broken\": -").find("'broken' is -"), std::string::npos);
}

TEST(TokenManifest, DeeplyNestedJsonIsRefused) {
  const TemporaryFolder folder;
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  write_text(folder / "manifest.json", nested(200'000));
  EXPECT_NE(error_of_reading(folder.path()).find("nested too deep"), std::string::npos);
  write_text(folder / "manifest.json", R"({"format":"nsvq-tokens","version":)" + nested(30) + "}");
  EXPECT_NE(error_of_reading(folder.path()).find("version a list"), std::string::npos);
}

}  // namespace
}  // namespace nsvq
