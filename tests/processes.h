#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>

namespace nsvq {

/// Whether a process has this text in its command line.
inline bool some_process_names(const std::string& text) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", none)) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string words{std::istreambuf_iterator<char>(file), {}};
    if (words.find(text) != std::string::npos) return true;
  }
  return false;
}

/// Whether there is none soon.
inline bool all_processes_end(const std::string& text) {
  for (int i = 0; i < 1000 && some_process_names(text); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return !some_process_names(text);
}

}  // namespace nsvq
