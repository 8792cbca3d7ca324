#pragma once

#include <filesystem>
#include <fstream>

namespace nsvq {

/// A run that was never trained: settings and a line of its log.
inline void put_run(const std::filesystem::path& run) {
  std::filesystem::create_directories(run / "samples");
  std::ofstream(run / "config.yaml") << "seed: 1\n";
  std::ofstream(run / "metrics.jsonl") << R"({"kind":"step","step":1,"loss":2})"
                                          "\n";
}

}  // namespace nsvq
