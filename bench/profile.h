#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/cli/bench/bench.h"
#include "nsvq/io/formats/json.h"

namespace nsvq {

/// FLOPs (multiplications and additions) of the convolutions in `work`, backward included, on all
/// threads. Other operators are not counted; convolutions are nearly all of a training step.
double convolution_flops(const Work& work);

/// GPU time and launches of a kernel, or of a family of kernels, per call of the profiled work.
struct KernelTime {
  std::string name;
  double milliseconds = 0;
  double launches = 0;
};

/// Profiles `calls` calls of `work` on a GPU; kernels by decreasing time, means per call.
std::vector<KernelTime> profile_kernels(const Work& work, c10::Device device, int calls);

/// Sums kernels by family ("convolutions", "batch norm", ...), recognised by their names.
std::vector<KernelTime> by_family(const std::vector<KernelTime>& kernels);

/// Prints a table of the first `most` of them; returns it.
Json print_kernels(const std::string& title, const std::vector<KernelTime>& times, int64_t most);

/// Throws UserError for a profile (`kernels` > 0) of the CPU.
void require_gpu_for_kernels(int kernels, c10::Device device);

/// FLOPs of convolutions, and with --kernels a profile.
class KernelProbe : public BenchProbe {
 public:
  void declare(CLI::App& app) override;
  void check(c10::Device device) const override { require_gpu_for_kernels(kernels_, device); }
  void call_once(const Work& work) override { flops_ = convolution_flops(work); }
  void show_rate(double milliseconds, int64_t units, const std::string& unit, Json& json) override;
  void show_kernels(const Work& work, c10::Device device, Json& json) override;

 private:
  int kernels_ = 0;         ///< longest kernels to show; 0: no profile
  double peak_tflops_ = 0;  ///< of the device; 0: not given
  double flops_ = 0;        ///< of the convolutions of one call
};

}  // namespace nsvq
