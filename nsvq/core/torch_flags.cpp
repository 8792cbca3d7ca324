#include "nsvq/core/torch_flags.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include "nsvq/core/device.h"

namespace nsvq {

TorchFlags::TorchFlags(const TorchSettings& settings)
    : threads_(at::get_num_threads()),
      deterministic_(at::globalContext().deterministicCuDNN()),
      benchmark_(at::globalContext().benchmarkCuDNN()),
      onednn_(at::globalContext().userEnabledMkldnn()),
      nnpack_(at::globalContext().userEnabledNNPACK()),
      tf32_convolutions_(at::globalContext().allowTF32CuDNN()) {
  at::set_num_threads(settings.threads > 0 ? static_cast<int>(settings.threads)
                                           : default_threads());
  auto& context = at::globalContext();
  context.setDeterministicCuDNN(settings.deterministic);
  context.setBenchmarkCuDNN(!settings.deterministic);
  context.setAllowTF32CuDNN(settings.tf32_convolutions);
#if defined(__aarch64__)
  // On aarch64 oneDNN computes gradients of convolutions with its slow reference matrix product,
  // and NNPACK's threads spin while they wait, which turns seconds into minutes when other programs
  // use the cores (bench/convolution.py).
  context.setUserEnabledMkldnn(settings.inference);
  context.setUserEnabledNNPACK(false);
#endif
}

TorchFlags::~TorchFlags() {
  at::set_num_threads(threads_);
  auto& context = at::globalContext();
  context.setDeterministicCuDNN(deterministic_);
  context.setBenchmarkCuDNN(benchmark_);
  context.setAllowTF32CuDNN(tf32_convolutions_);
  context.setUserEnabledMkldnn(onednn_);
  context.setUserEnabledNNPACK(nnpack_);
}

}  // namespace nsvq
