#pragma once

#include <string>
#include <vector>

namespace nsvq {

/// Texts as execve and posix_spawn take them.
class ExecWords {
 public:
  explicit ExecWords(std::vector<std::string> texts);
  ExecWords(const ExecWords&) = delete;
  ExecWords& operator=(const ExecWords&) = delete;

  char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

/// This process's environment, with these NAME=VALUE in place of its own of the same names.
std::vector<std::string> environment_with(const std::vector<std::string>& own);

}  // namespace nsvq
