#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "nsvq/core/tensor_map.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/runs/checkpoint.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

/// The lines of a run's metrics.jsonl without what tells the time or the machine.
inline std::vector<nlohmann::json> timeless_metrics(const std::filesystem::path& run) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(run / "metrics.jsonl");
  for (std::string text; std::getline(in, text);) {
    auto line = nlohmann::json::parse(text);
    for (const auto* key : {"images_per_second", "samples_per_second", "peak_memory_gib",
                            "peak_reserved_gib", "seconds"})
      line.erase(key);
    lines.push_back(line);
  }
  return lines;
}

/// The records of a run's event files without wall times and without these keys.
inline std::vector<std::string> timeless_events(const std::filesystem::path& run) {
  std::vector<std::string> records;
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    if (!entry.path().filename().string().starts_with("events.out.tfevents.")) continue;
    const auto text = read_text(entry.path());
    for (size_t at = 0; at + 16 <= text.size();) {
      uint64_t length = 0;
      std::memcpy(&length, text.data() + at, sizeof(length));
      auto record = text.substr(at + 12 + 9, length - 9);  // behind the field of the wall time
      at += 16 + length;
      bool timed = false;
      for (const auto* key : {"images_per_second", "samples_per_second", "peak_memory_gib",
                              "peak_reserved_gib", "seconds"}) {
        timed = timed || record.find(key) != std::string::npos;
      }
      if (!timed) records.push_back(std::move(record));
    }
  }
  return records;
}

/// The first difference between two lists, in a line that people can read.
template <typename List>
std::string first_difference(const List& a, const List& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] == b[i]) continue;
    std::ostringstream text;
    text << "entry " << i << ": " << a[i] << " and " << b[i];
    return text.str().substr(0, 2000);
  }
  return a.size() == b.size() ? "" : fmt::format("{} and {} entries", a.size(), b.size());
}

inline std::string first_difference(const TensorMap& a, const TensorMap& b) {
  if (a.size() != b.size()) return fmt::format("{} and {} tensors", a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    if (!b.contains(name)) return name + " is missing";
    if (!at::equal(tensor, b.at(name))) return name;
  }
  return "";
}

/// Two runs left equal traces, bit for bit: weights, averages, moments, state, metrics, events.
/// Their settings, which stand in the files too, may differ.
inline void expect_same_training(const std::filesystem::path& a, const std::filesystem::path& b) {
  SCOPED_TRACE(b.string());
  EXPECT_EQ(first_difference(timeless_metrics(a), timeless_metrics(b)), "");
  EXPECT_EQ(first_difference(timeless_events(a), timeless_events(b)), "");
  const auto last_a = list_checkpoints(a).back(), last_b = list_checkpoints(b).back();
  ASSERT_EQ(last_a.filename(), last_b.filename());
  for (const auto* name : {"model.safetensors", "training.safetensors"}) {
    EXPECT_EQ(first_difference(read_safetensors(last_a / name).tensors,
                               read_safetensors(last_b / name).tensors),
              "")
        << name;
  }
  auto state_a = nlohmann::json::parse(read_text(last_a / "state.json"));
  auto state_b = nlohmann::json::parse(read_text(last_b / "state.json"));
  for (const auto* key : {"events", "metrics_length"}) {
    state_a.erase(key);
    state_b.erase(key);
  }
  EXPECT_EQ(state_a, state_b);
}

/// Also the bytes of the files of weights.
inline void expect_same_runs(const std::filesystem::path& a, const std::filesystem::path& b) {
  expect_same_training(a, b);
  const auto last_a = list_checkpoints(a).back(), last_b = list_checkpoints(b).back();
  for (const auto* name : {"model.safetensors", "training.safetensors"}) {
    EXPECT_TRUE(read_text(last_a / name) == read_text(last_b / name)) << b << " " << name;
  }
}

/// Lines of metrics.jsonl of one kind.
inline std::vector<nlohmann::json> lines_of_kind(const std::filesystem::path& run,
                                                 const std::string& kind) {
  std::ifstream in(run / "metrics.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string text; std::getline(in, text);) {
    auto line = nlohmann::json::parse(text);
    if (line.at("kind") == kind) lines.push_back(line);
  }
  return lines;
}

}  // namespace nsvq
