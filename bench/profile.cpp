#include "bench/profile.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <map>
#include <regex>

#include "nsvq/cli/arguments/values.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/io/formats/json.h"

namespace nsvq {

namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

std::vector<KernelTime> longest_first(const std::map<std::string, KernelTime>& found) {
  std::vector<KernelTime> times;
  for (const auto& [name, time] : found) times.push_back(time);
  std::sort(times.begin(), times.end(), [](const KernelTime& a, const KernelTime& b) {
    return a.milliseconds > b.milliseconds;
  });
  return times;
}

void add(std::map<std::string, KernelTime>& times, const std::string& name, double milliseconds,
         double launches) {
  auto& time = times[name];
  time.name = name;
  time.milliseconds += milliseconds;
  time.launches += launches;
}

struct KernelFamily {
  const char* name;
  const char* pattern;  ///< regular expression for its kernels' names
};

// A kernel belongs to the first family whose pattern matches its name.
constexpr KernelFamily kFamilies[] = {
    {"search and NS loss",
     "nsvq.*(value_range|pack|pack_weighted|unit|search_pass|sweep|rerank|mark|crowd|finish|anchor|"
     "weigh|codebook_grad|add_parts)_kernel|nsvq.*(code_sums|count_codes|add_rows)"},
    {"group norm with SiLU", "group_norm"},
    {"LPIPS distance", "nsvq.*(distances|gradients)<"},
    {"bias and ReLU", "bias_relu"},
    {"depth to space", "depth_to_space|space_to_depth"},
    {"attention", "sdpa|flash|fmha"},  // before convolutions: cuDNN has some of its own
    {"convolutions", "cudnn|xmma|conv|wgrad|dgrad|fprop|nchwToNhwc|nhwcToNchw"},
    {"matrix products", "gemm|nvjet|cutlass"},
    {"optimizer and average", "multi_tensor|fused_adam|[Aa]dam"},
    {"batch norm", "batch_norm|batchnorm|bn_"},
    {"pooling", "pool"},
    {"copies and fills", "[Mm]emcpy|[Mm]emset|copy|fill|Fill"},
    {"sums and means", "reduce"},
    {"elementwise", "elementwise"},
};

std::string family_of(const std::string& kernel) {
  for (const auto& family : kFamilies) {
    if (std::regex_search(kernel, std::regex(family.pattern))) return family.name;
  }
  return "other";
}

}  // namespace

std::vector<KernelTime> profile_kernels(const Work& work, c10::Device device, int calls) {
  if (!device.is_cuda()) return {};
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  profiler::prepareProfiler(config, {ActivityType::CUDA});
  profiler::enableProfiler(config, {ActivityType::CUDA});
  for (int i = 0; i < calls; ++i) work();
  wait_for(device);
  const auto result = profiler::disableProfiler();
  std::map<std::string, KernelTime> times;
  for (const auto& event : result->events()) {
    if (event.deviceType() != c10::DeviceType::CUDA) continue;
    add(times, event.name(), static_cast<double>(event.durationNs()) / 1e6 / calls, 1. / calls);
  }
  return longest_first(times);
}

std::vector<KernelTime> by_family(const std::vector<KernelTime>& kernels) {
  std::map<std::string, KernelTime> families;
  for (const auto& kernel : kernels) {
    add(families, family_of(kernel.name), kernel.milliseconds, kernel.launches);
  }
  return longest_first(families);
}

Json print_kernels(const std::string& title, const std::vector<KernelTime>& times, int64_t most) {
  auto json = Json::array();
  fmt::print("| {} | ms | launches |\n|---|---|---|\n", title);
  for (const auto& time : times) {
    if (std::ssize(json) >= most) break;
    fmt::print("| {} | {:.3f} | {:.0f} |\n", time.name, time.milliseconds, time.launches);
    json.push_back(
        {{"name", time.name}, {"milliseconds", time.milliseconds}, {"launches", time.launches}});
  }
  fmt::print("\n");
  return json;
}

void require_gpu_for_kernels(int kernels, c10::Device device) {
  if (kernels > 0 && device.is_cpu()) {
    throw UserError("--kernels needs a GPU, but the device is the CPU; leave it out");
  }
}

void KernelProbe::declare(CLI::App& app) {
  app.add_option("--peak-tflops", peak_tflops_,
                 "TFLOP/s of the device in matrix products; the share reached is shown")
      ->check(check_number(Range::above(0)));
  app.add_option("--kernels", kernels_,
                 "profile a GPU: times by kind of kernel, and of the N longest kernels")
      ->check(CLI::Range(1, 1000));
}

void KernelProbe::show_rate(double milliseconds, int64_t units, const std::string& unit,
                            Json& json) {
  const double tflops = flops_ / milliseconds / 1e9, share = tflops / peak_tflops_;
  fmt::print("convolutions: {:.3g} GFLOP {} {}, so {:.3g} TFLOP/s{}\n",
             flops_ / static_cast<double>(units) / 1e9, unit == "image" ? "an" : "a", unit, tflops,
             peak_tflops_ > 0 ? fmt::format(", {:.0f} % of {:g}", 100 * share, peak_tflops_) : "");
  json["convolution_flop"] = flops_;
  if (peak_tflops_ > 0) json["share_of_peak"] = share;
}

void KernelProbe::show_kernels(const Work& work, c10::Device device, Json& json) {
  if (kernels_ == 0) return;
  const auto all = profile_kernels(work, device, /*calls=*/3);
  auto& profile = json["profile"];
  profile["kind of kernel"] = print_kernels("kind of kernel", by_family(all), std::ssize(all));
  profile["kernel"] = print_kernels("kernel", all, kernels_);
}

}  // namespace nsvq
