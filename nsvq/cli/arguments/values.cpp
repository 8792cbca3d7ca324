#include "nsvq/cli/arguments/values.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <optional>

#include "nsvq/cli/program/command.h"
#include "nsvq/core/environment.h"
#include "nsvq/core/error.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

constexpr int64_t kMostParts = 1'000'000;

/// A variable that launchers set, or `fallback`. Throws UserError unless it is a number from
/// `least`.
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
  // Numbers of an array need not be consecutive (--array=1,5,9). Two tasks may get one part: they
  // share it, since every process helps with all parts.
  const int64_t index = (task - first) / step % tasks;
  return WorkPart{index * processes + process % processes + 1, tasks * processes};
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

std::function<std::string(const std::string&)> check_number(const Range& range) {
  return [range](const std::string& text) -> std::string {
    double value = NAN;
    size_t read = 0;
    try {
      value = std::stod(text, &read);
    } catch (const std::exception&) {
      read = 0;
    }
    if (read == text.size() && std::isfinite(value) && range.contains(value)) return "";
    return fmt::format("{} is not a number ({})", quote(text), range.text);
  };
}

std::string check_seed(const std::string& text) {
  if (parse_decimal(text)) return "";
  return quote(text) + " is not a seed: a whole number, 0 or more, of at most 18 digits";
}

void declare_device(CLI::App& app, std::string& device) {
  app.add_option("--device", device, "where the networks run")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
}

void declare_gpus(CLI::App& app, int& gpus, const std::string& verb) {
  app.add_option("--gpus", gpus,
                 verb + " on N GPUs of this machine; a process each (docs/distributed.md)")
      ->check(CLI::Range(1, 1024));
}

void declare_timeout(CLI::App& app, double& seconds) {
  app.add_option("--timeout", seconds,
                 "seconds after which the processes end if one of them is silent")
      ->check(check_number(Range::above(0)))
      ->capture_default_str()
      ->group(kRare);
}

WorkPart choose_part(const std::string& option) {
  if (option.empty()) return part_of_torchrun().value_or(WorkPart());
  if (option != "auto") return parse_part(option);
  if (const auto part = part_of_torchrun()) return *part;
  if (const auto part = part_of_slurm()) return *part;
  throw UserError(
      "--part auto: neither torchrun (RANK) nor SLURM (SLURM_PROCID) started this process; give "
      "--part K/N");
}

}  // namespace nsvq
