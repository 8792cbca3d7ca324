#include "nsvq/cli/arguments/work_part.h"

#include <optional>

#include "nsvq/core/environment.h"
#include "nsvq/core/error.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

constexpr int64_t kMostParts = 1'000'000;

/// A variable that launchers set; `fallback` where it is not set. Throws UserError for anything but
/// a number from `least`.
int64_t number_of(const char* name, int64_t fallback, int64_t least) {
  return environment_number(name, least, INT32_MAX, "give --part K/N").value_or(fallback);
}

/// torchrun's processes, counted over all machines.
std::optional<WorkPart> part_of_torchrun() {
  if (!environment_text("RANK") || !environment_text("WORLD_SIZE")) return std::nullopt;
  const WorkPart part{number_of("RANK", 0, 0) + 1, number_of("WORLD_SIZE", 1, 1)};
  if (part.number <= part.count) return part;
  throw UserError("RANK is {}, but WORLD_SIZE is {}; give --part K/N", part.number - 1, part.count);
}

/// Tasks of a job array, and in each of them the processes that srun starts.
std::optional<WorkPart> part_of_slurm() {
  if (!environment_text("SLURM_ARRAY_TASK_ID") && !environment_text("SLURM_PROCID"))
    return std::nullopt;
  const int64_t tasks = number_of("SLURM_ARRAY_TASK_COUNT", 1, 1);
  const int64_t first = number_of("SLURM_ARRAY_TASK_MIN", 0, 0);
  const int64_t step = number_of("SLURM_ARRAY_TASK_STEP", 1, 1);
  const int64_t task = number_of("SLURM_ARRAY_TASK_ID", first, first);
  const int64_t processes = number_of("SLURM_NTASKS", 1, 1);
  const int64_t process = number_of("SLURM_PROCID", 0, 0);
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
