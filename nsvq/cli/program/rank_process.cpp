#include "nsvq/cli/program/rank_process.h"

#include <unistd.h>

#include <fstream>
#include <vector>

#include "nsvq/cli/arguments/memory_advice.h"
#include "nsvq/cli/program/program.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"

namespace nsvq {

namespace {

/// The arguments of this process without --gpus.
std::vector<std::string> words_without_gpus() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (!words.empty()) words.erase(words.begin());
  std::vector<std::string> kept;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--gpus") {
      ++i;  // its number
    } else if (!words[i].starts_with("--gpus=")) {
      kept.push_back(words[i]);
    }
  }
  return kept;
}

}  // namespace

std::shared_ptr<Group> join_ranks(const Launch& launch, const GroupOptions& options,
                                  const std::string& advice) {
  set_quiet(launch.rank != 0);
  // Nothing can be thrown: the working thread may be waiting for the lost rank.
  return make_group(launch, options, [=](const std::string& message) {
    set_quiet(false);
    log("nsvq: rank {}: {}; {}", launch.rank, message, advice);
    ::_exit(kRunError);
  });
}

void work_as_rank(Group& group, const std::function<void()>& work) {
  try {
    work();
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    group.tell_failure(is_out_of_memory(text) ? explain_out_of_memory(text)
                                              : text.substr(0, text.find('\n')));
    set_quiet(false);
    throw;
  }
}

void start_on_gpus(int count, const std::string& device) {
  if (device != "cpu" && gpu_count() < count) {
    throw UserError("--gpus {}: {}", count,
                    gpu_count() == 0
                        ? why_no_gpu() + "; with the device cpu it starts as many processes"
                        : fmt::format("this machine has {}", gpu_count()));
  }
  throw ExitCode{launch_processes(count, words_without_gpus())};
}

}  // namespace nsvq
