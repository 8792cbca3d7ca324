#include "bench/profile.h"

#include <ATen/record_function.h>
#include <torch/types.h>

#include <atomic>
#include <string_view>

namespace nsvq {

namespace {

// A global, because callbacks are plain functions; atomic, because autograd's threads call them
// too.
std::atomic<double> counted_flops;

/// Two FLOPs (multiply and add) for each output and filter element.
double flops_of(double outputs, const at::Tensor& weight) {
  const auto filter = static_cast<double>(weight.numel()) / static_cast<double>(weight.size(0));
  return 2 * outputs * filter;
}

double numbers_in_output(c10::ArrayRef<const c10::IValue> inputs) {
  const auto &input = inputs[0].toTensor(), &weight = inputs[1].toTensor();
  const auto stride = inputs[3].toIntVector(), padding = inputs[4].toIntVector();
  auto numbers = static_cast<double>(input.size(0) * weight.size(0));
  for (int64_t i = 2; i < input.dim(); ++i) {
    const int64_t last = input.size(i) + 2 * padding[i - 2] - weight.size(i);
    const int64_t outputs = last / stride[i - 2] + 1;
    numbers *= static_cast<double>(outputs);
  }
  return numbers;
}

std::unique_ptr<at::ObserverContext> count_convolution(const at::RecordFunction& call) {
  const std::string_view name = call.name();
  const auto inputs = call.inputs();
  double flops = 0;
  if (name == "aten::convolution") {
    flops = flops_of(numbers_in_output(inputs), inputs[1].toTensor());
  } else if (name == "aten::convolution_backward") {
    const auto wanted =
        inputs[10].toBoolList();  // output_mask: gradient of the input, of the weight
    const auto outputs = static_cast<double>(inputs[0].toTensor().numel());
    flops = flops_of(outputs, inputs[2].toTensor()) * (wanted.get(0) + wanted.get(1));
  }
  if (flops > 0) counted_flops.fetch_add(flops);
  return nullptr;
}

}  // namespace

double convolution_flops(const Work& work) {
  counted_flops = 0;
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback(count_convolution)
          .needsInputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  work();
  at::removeCallback(handle);
  return counted_flops;
}

}  // namespace nsvq
