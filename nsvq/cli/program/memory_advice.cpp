#include "nsvq/cli/program/memory_advice.h"

#include <fmt/format.h>

#include "nsvq/core/device.h"

namespace nsvq {

namespace {

struct NotedBatch {
  std::string setting, others;
  int64_t size = 0;
};

/// Global, since a process runs one command.
NotedBatch& noted_batch() {
  static NotedBatch batch;
  return batch;
}

}  // namespace

void note_batch_size(const std::string& setting, int64_t size, const std::string& others) {
  noted_batch() = {setting, others, size};
}

std::string explain_out_of_memory(const std::string& error) {
  const auto& batch = noted_batch();
  std::string text = describe_out_of_memory(error);
  if (batch.size > 1) {
    text += fmt::format("; try {}{}, half of the present batch", batch.setting, batch.size / 2);
  }
  if (!batch.others.empty()) text += (batch.size > 1 ? ", or " : "; try ") + batch.others;
  if (batch.size <= 1 && batch.others.empty())
    text += "; smaller images or a smaller model may fit";
  return text;
}

}  // namespace nsvq
