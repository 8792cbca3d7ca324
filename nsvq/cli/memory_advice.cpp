#include "nsvq/cli/memory_advice.h"

#include <fmt/format.h>

#include "nsvq/core/device.h"

namespace nsvq {

namespace {

struct NotedBatch {
  std::string setting;
  int64_t size = 0;
};

/// Of the one command that a process runs.
NotedBatch& noted_batch() {
  static NotedBatch batch;
  return batch;
}

}  // namespace

void note_batch_size(const std::string& setting, int64_t size) { noted_batch() = {setting, size}; }

std::string explain_out_of_memory(const std::string& error) {
  const auto& batch = noted_batch();
  const bool training = batch.setting.starts_with("train.");
  std::string text = describe_out_of_memory(error);
  if (batch.size > 1) {
    text += fmt::format("; try {}{}, half of the present batch", batch.setting, batch.size / 2);
  }
  if (training) text += ", or train.recompute=true, or a lower data.size or model.width";
  if (batch.size <= 1 && !training) text += "; smaller images or a smaller model may fit";
  return text;
}

}  // namespace nsvq
