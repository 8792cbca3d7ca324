#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/data/sources/image_names.h"
#include "nsvq/data/sources/patterns.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/folder_checksums.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/runs/checkpoint.h"
#include "nsvq/runs/log.h"
#include "nsvq/settings/yaml.h"
#include "nsvq/tokens/token_manifest.h"
#include "nsvq/tokens/token_shard.h"
#include "tests/fuzz/target.h"

namespace nsvq {

namespace {

using Seeds = std::map<std::string, Bytes>;

TokenManifest some_manifest() {
  TokenManifest manifest;
  manifest.settings = {.model_sha256 = std::string(64, 'a'),
                       .codes = 64,
                       .grid_height = 4,
                       .grid_width = 4,
                       .image_height = 32,
                       .image_width = 32,
                       .images = 3,
                       .keys_sha256 = std::string(64, 'b'),
                       .shard_size = 2,
                       .batch_size = 2,
                       .classes = {"ant", "bee"}};
  manifest.source = "photos";
  manifest.shards = {{"tokens-00000.safetensors", 2, 1000, std::string(64, 'c'), {"broken.jpg"}}};
  return manifest;
}

/// Also compares the settings with another folder's, whose error quotes the file, and parses the
/// shards' numbers.
void read_manifest(std::span<const std::byte> bytes) {
  static const auto other = some_manifest();
  const std::filesystem::path file = file_with(bytes, kTokenManifest);
  const auto manifest = read_token_manifest(file.parent_path());
  difference(manifest.settings, other.settings);
  for (const auto& shard : manifest.shards) token_shard_number(shard.file);
}

Seeds manifest_seeds() {
  const auto text = [](const TokenManifest& manifest) {
    const TemporaryFolder folder;
    write_token_manifest(folder.path(), manifest);
    return read_file(folder / kTokenManifest);
  };
  auto joined = some_manifest();
  joined.joined = {{"a", 1, std::string(64, 'd')}, {"b", 2, std::string(64, 'e')}};
  joined.settings.classes = {"ant", "wasp", "bee"};
  joined.shards[0].file = "tokens-1.safetensors";
  auto scaled = some_manifest();
  scaled.settings.scales = {{1, 1}, {2, 3}, {4, 4}};
  scaled.settings.groups = 2;
  scaled.settings.variants = {"left", "center"};
  return {{"manifest.json", text(some_manifest())},
          {"joined.json", text(joined)},
          {"scaled.json", text(scaled)}};
}

/// Reads a checkpoint's manifest.json beside one of its files.
void read_checksums(std::span<const std::byte> bytes) {
  static const auto beside = file_with(bytes_of("{}"), "state.json");
  const std::filesystem::path file = file_with(bytes, "manifest.json");
  file_damage(beside);
  file_replaced(beside);
  if (const auto damage = folder_damage(file.parent_path())) throw UserError("{}", *damage);
}

Seeds checksum_seeds() {
  const TemporaryFolder folder;
  write_text(folder / "state.json", "{}");
  write_checksums(folder.path());
  return {{"manifest.json", read_file(folder / "manifest.json")}};
}

Seeds record_seeds() {
  return {{"record.json", written("record.json", [](const std::string& path) {
             write_shard_record(path,
                                {"tokens-00000.safetensors", 2, 1000, std::string(64, 'c'), {"x"}});
           })}};
}

Seeds state_seeds() {
  RunState state;
  state.step = 20;
  state.evaluation = {{"psnr", 20.5}};
  state.best = {"psnr", 20.5, 10};
  return {{"state.json",
           bytes_of(state_to_json(
               state, {.metrics = 100, .events = "events.out.tfevents.1", .events_length = 50}))}};
}

/// The name of the setting is the first line, its value the rest.
void read_override(std::span<const std::byte> bytes) {
  const auto text = text_of(bytes);
  const auto end = text.find('\n');
  if (end == std::string::npos) return;
  parse_yaml_value(text.substr(0, end), std::string_view(text).substr(end + 1), "override");
}

/// Reads a log in pieces by its name, and as a text, and calls the functions that the page uses.
void read_log(std::span<const std::byte> bytes) {
  const auto log = read_run_log(file_with(bytes, "metrics.jsonl"));
  if (parse_run_log(text_of(bytes)).records.size() != log.records.size()) {
    throw std::logic_error("a log is not what its text is");
  }
  log.values("step", "loss");
  log.of_kind("step");
  log.phases();
  log.last_step();
  log.last_epoch();
}

/// The name of an entry of a tar is the first line, its contents the rest.
void read_class_number(std::span<const std::byte> bytes) {
  const auto text = text_of(bytes);
  const auto name = text.substr(0, text.find('\n'));
  if (!is_class_number_name(plain_name(name))) throw UserError("{}: no number", name);
  without_ending(name);
  const auto contents = bytes.subspan(std::min(name.size() + 1, bytes.size()));
  check_class_number_size(std::ssize(contents), "input");
  parse_class_number(contents, "input");
}

/// Fewer paths than users may have, so that a fuzzer does not spend its time on making names.
void expand(std::span<const std::byte> bytes) {
  for (const auto& part : split_list(text_of(bytes))) expand_braces(part, 1000);
}

Seeds one(const char* name, const char* text) { return {{name, bytes_of(text)}}; }

}  // namespace

std::vector<FuzzTarget> text_targets() {
  return {
      {"token_manifest", read_manifest, manifest_seeds},
      {"checksums", read_checksums, checksum_seeds},
      {"shard_record",
       [](std::span<const std::byte> bytes) { read_shard_record(file_with(bytes, "record.json")); },
       record_seeds},
      {"run_state",
       [](std::span<const std::byte> bytes) { state_from_json(text_of(bytes), "input"); },
       state_seeds},
      {"run_log", read_log,
       [] {
         return one(
             "metrics.jsonl",
             "{\"kind\":\"step\",\"step\":1,\"loss\":0.5,\"nan\":null,\"phase\":\"stage1\"}\n\n"
             "{\"kind\":\"alarm\",\"step\":1,\"sign\":\"dead\"}\n{\"step\":\n"
             "{\"kind\":\"eval\",\"step\":9}\n{\"kind\":\"step\",\"step\":1,\"loss\":0.4}\n"
             "{\"kind\":\"phase\",\"step\":2,\"epoch\":1,\"phase\":\"warmup\",\"reason\":\"x\"}\n");
       }},
      {"json", [](std::span<const std::byte> bytes) { shown_json(parse_json(text_of(bytes))); },
       [] {
         return one("some.json",
                    "{\"a\": [1, -2.5e3, true, null, \"\\u00e9\\n\"], \"b\": {\"c\": {}}}");
       }},
      {"yaml", [](std::span<const std::byte> bytes) { parse_yaml(text_of(bytes), "input"); },
       [] {
         return one("some.yaml",
                    "# words\na: {b: 1, c: [x, \"y\"]}\nd:\n  e: 'f'\n  g: >\n    h\n");
       }},
      {"override", read_override, [] { return one("list", "schedule.phases\n[stage1, warmup]"); }},
      {"patterns", expand, [] { return one("braces", "a-{00..11}.tar,b{c,d{e,f}}[0-9]*.jpg"); }},
      {"class_names",
       [](std::span<const std::byte> bytes) { read_class_names(file_with(bytes, "classes.txt")); },
       [] { return one("classes.txt", "ant\nbee\n"); }},
      {"class_number", read_class_number, [] { return one("number.cls", "./a/b.cls\n12\n"); }},
  };
}

}  // namespace nsvq
