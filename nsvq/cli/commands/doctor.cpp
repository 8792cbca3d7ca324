// `nsvq doctor`: what this machine offers, on one page.

#include <ATen/Parallel.h>
#include <sys/resource.h>
#include <torch/types.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <thread>

#include "nsvq/cli/output/json_output.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/cli/program/version.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/precision.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/core/text.h"
#include "nsvq/core/threads/shared_cores.h"
#include "nsvq/core/version.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/nn/weights.h"
#include "nsvq/ops/code_search/gpu_path.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// Version of the kernel module ("580.95.05"); empty without one.
std::string nvidia_driver() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    if (std::count(word.begin(), word.end(), '.') >= 1 && std::isdigit(word[0])) return word;
  }
  return "";
}

/// The oldest driver that a CUDA of this major version runs with.
int least_driver(int cuda) { return cuda >= 13 ? 580 : cuda == 12 ? 525 : 450; }

int leading_number(const std::string& text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}
/// Prints the GPUs, or why there is none to use, and returns them.
Json show_gpus() {
  const auto driver = nvidia_driver();
  const auto cuda = cuda_version();
  Json json = {
      {"names", Json::array()}, {"search", Json::array()}, {"driver", driver}, {"cuda", cuda}};
  for (int i = 0; i < gpu_count(); ++i) {
    const c10::Device gpu(c10::kCUDA, static_cast<c10::DeviceIndex>(i));
    const auto name = gpu_name(gpu), search = describe_gpu_path(gpu);
    json["names"].push_back(name);
    json["search"].push_back(search);
    fmt::print("GPU          {}: {}, driver {}, CUDA {}\n", i, name, driver, cuda);
    fmt::print("             {}\n", search);
  }
  if (gpu_count() > 0) return json;
  json["why_none"] = why_no_gpu();
  fmt::print("GPU          none: {}\n", why_no_gpu());
  if (driver.empty()) return json;
  const int least = least_driver(leading_number(cuda));
  if (cuda.empty()) {
    fmt::print("             the driver {} is there: build with NSVQ_CUDA=ON to use the GPU\n",
               driver);
  } else if (leading_number(driver) < least) {
    fmt::print("             driver {} is too old for CUDA {}: {} or newer is needed\n", driver,
               cuda, least);
  }
  return json;
}

Json show_weights() {
  std::string folder;
  try {
    folder = weights_folder().string();
  } catch (const UserError& error) {
    fmt::print("weights      {}\n", error.what());
    return {{"problem", error.what()}};
  }
  Json json = {{"folder", folder}};
  fmt::print("weights      in {}\n", folder);
  for (const auto& kind : weights_kinds()) {
    try {
      const auto origin = weights_origin(kind.name);
      json[kind.name] = describe_values(origin.official, origin.source);
      fmt::print("  {:16} {}\n", kind.name, describe_values(origin.official, origin.source));
    } catch (const UserError&) {
      json[kind.name] = nullptr;
      fmt::print("  {:16} missing: {}\n", kind.name, kind.command);
    }
  }
  return json;
}

/// Free bytes of the disk; null if unknown.
Json free_bytes(const fs::path& folder) {
  std::error_code error;
  const auto space = fs::space(folder, error);
  return error ? Json() : Json(space.available);
}

std::string in_gib(const Json& bytes) {
  if (bytes.is_null()) return "unknown";
  return fmt::format("{:.1f} GiB", bytes.get<double>() / (1 << 30));
}

/// A number, or "unlimited"; null if unknown.
Json most_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  return limit.rlim_cur == RLIM_INFINITY ? Json("unlimited") : Json(limit.rlim_cur);
}

/// Computes on the device and writes a file, as training and tokenising do. Throws UserError.
void try_machine() {
  const auto device = choose_device("auto");
  const auto ones = at::ones({1, 3, 8, 8}, device);
  const auto sum = at::conv2d(ones, at::ones({4, 3, 3, 3}, device)).sum().item<double>();
  if (sum != 4 * 36 * 27) throw UserError("{} computes a convolution wrongly", describe(device));
  const TemporaryFolder folder;
  write_text(folder / "file", "text");
}

void run_doctor(const JsonArgument& argument) {
  JsonOutput output(argument);
  const TorchFlags as_in_training({});
  const int threads = at::get_num_threads();
  CoreUseMeter meter;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto use = meter.since_last();
  Json json = {{"nsvq", kVersion},
               {"commit", commit()},
               {"torch", TORCH_VERSION},
               {"cpu",
                {{"usable_cores", usable_cores()},
                 {"used_by_others", use.others()},
                 {"cores", std::thread::hardware_concurrency()},
                 {"threads", threads},
                 {"instructions", cpu_path()}}}};
  fmt::print("nsvq         {}, commit {}\n", kVersion, commit());
  fmt::print("torch        {}\n", TORCH_VERSION);
  fmt::print("CPU          {} of {} usable, {}, {}\n", usable_cores(),
             count_of(std::thread::hardware_concurrency(), "core"), count_of(threads, "thread"),
             cpu_path());
  const auto shared = describe_shared_cores(use, threads);
  if (!shared.empty()) fmt::print("             {}\n", shared);
  json["gpu"] = show_gpus();
  std::error_code no_folder;  // ignored: its free bytes are unknown
  json["free_disk_bytes"] = {{"here", free_bytes(".")},
                             {"temporary", free_bytes(fs::temp_directory_path(no_folder))}};
  const auto& disk = json["free_disk_bytes"];
  fmt::print("free disk    {} here, {} for temporary files\n", in_gib(disk["here"]),
             in_gib(disk["temporary"]));
  const auto files = json["open_files"] = most_open_files();
  fmt::print("open files   at most {}; a quarter of them for tar shards\n",
             files.is_null()     ? "unknown"
             : files.is_string() ? files.get<std::string>()
                                 : files.dump());
  json["weights"] = show_weights();
  try {
    try_machine();
  } catch (const std::exception& error) {
    throw UserError("training and tokenising cannot run here: {}", error.what());
  }
  json["device"] = describe(choose_device("auto"));
  fmt::print("\ntraining and tokenising can run on {}\n", describe(choose_device("auto")));
  output.write(json);
}

}  // namespace

void declare_doctor(CLI::App& app) {
  const auto json = std::make_shared<JsonArgument>();
  declare_json_argument(app, *json);
  app.callback([json] { run_doctor(*json); });
}

}  // namespace nsvq
