#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace nsvq {

/// A registered operator, to be called with the dispatcher's choice of kernel. Keep it: the lookup
/// is by name.
template <typename Signature>
auto operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace nsvq
