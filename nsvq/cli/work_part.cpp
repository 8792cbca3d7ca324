#include "nsvq/cli/work_part.h"

#include <cstdlib>
#include <optional>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

constexpr int64_t kMostParts = 1'000'000;

/// A variable that launchers set; `fallback` where it is not set. Throws UserError for anything but
/// a number from `least`.
int64_t number_in_environment(const char* name, int64_t fallback, int64_t least) {
  const char* text = std::getenv(name);
  if (!text) return fallback;
  const auto number = parse_decimal(text);
  if (number && *number >= least && *number <= INT32_MAX) return *number;
  throw UserError("{} is {}, not a number from {}; give --part K/N", name, quote(text), least);
}

/// torchrun's processes, counted over all machines.
std::optional<WorkPart> part_of_torchrun() {
  if (!std::getenv("RANK") || !std::getenv("WORLD_SIZE")) return std::nullopt;
  const WorkPart part{number_in_environment("RANK", 0, 0) + 1,
                      number_in_environment("WORLD_SIZE", 1, 1)};
  if (part.number <= part.count) return part;
  throw UserError("RANK is {}, but WORLD_SIZE is {}; give --part K/N", part.number - 1, part.count);
}

/// Tasks of a job array, and in each of them the processes that srun starts.
std::optional<WorkPart> part_of_slurm() {
  if (!std::getenv("SLURM_ARRAY_TASK_ID") && !std::getenv("SLURM_PROCID")) return std::nullopt;
  const int64_t tasks = number_in_environment("SLURM_ARRAY_TASK_COUNT", 1, 1);
  const int64_t first = number_in_environment("SLURM_ARRAY_TASK_MIN", 0, 0);
  const int64_t step = number_in_environment("SLURM_ARRAY_TASK_STEP", 1, 1);
  const int64_t task = number_in_environment("SLURM_ARRAY_TASK_ID", first, first);
  const int64_t processes = number_in_environment("SLURM_NTASKS", 1, 1);
  const int64_t process = number_in_environment("SLURM_PROCID", 0, 0);
  // Numbers of an array need not be consecutive (--array=1,5,9). Two tasks with one part only take
  // turns in it, since every process helps with all parts.
  const int64_t place = (task - first) / step % tasks;
  return WorkPart{place * processes + process % processes + 1, tasks * processes};
}

WorkPart parse_part(const std::string& text) {
  const size_t slash = text.find('/');
  const auto number = parse_decimal(text.substr(0, slash));
  const auto count =
      slash == std::string::npos ? std::nullopt : parse_decimal(text.substr(slash + 1));
  if (!number || !count) {
    throw UserError("--part: {} is not of the form K/N, such as 3/64, nor auto", quote(text));
  }
  if (*count > kMostParts) throw UserError("--part: {} parts are more than 1,000,000", *count);
  if (*number < 1 || *number > *count) {
    throw UserError("--part: {} is not one of the parts 1/{} to {}/{}", text, *count, *count,
                    *count);
  }
  return {*number, *count};
}

}  // namespace

WorkPart choose_part(const std::string& option) {
  if (option.empty()) return part_of_torchrun().value_or(WorkPart());
  if (option != "auto") return parse_part(option);
  if (const auto part = part_of_torchrun()) return *part;
  if (const auto part = part_of_slurm()) return *part;
  throw UserError(
      "--part auto: neither torchrun (RANK, WORLD_SIZE) nor SLURM (SLURM_ARRAY_TASK_ID, "
      "SLURM_PROCID) has started this process; give --part K/N");
}

}  // namespace nsvq
