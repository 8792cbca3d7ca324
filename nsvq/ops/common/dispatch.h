#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <initializer_list>

namespace nsvq {

// An operator with gradients is registered once: its schema, kernels for the devices (CPU, CUDA),
// and one autograd function for the key Autograd. C++ and Python both call it by the dispatcher,
// which runs the autograd function; that function's forward reaches the kernel by
// `call_below_autograd`.

/// A registered operator, to be called with the dispatcher's choice of kernel. Keep it: the lookup
/// is by name.
template <typename Signature>
auto operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

/// Calls the operator's kernel for the device, past its autograd function.
template <typename Operator, typename... Arguments>
auto call_below_autograd(const Operator& op, const Arguments&... arguments) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  return op.call(arguments...);
}

/// Whether autograd records operations on these tensors.
inline bool needs_gradient(std::initializer_list<at::Tensor> tensors) {
  if (!at::GradMode::is_enabled()) return false;
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& one) { return one.requires_grad(); });
}

}  // namespace nsvq
