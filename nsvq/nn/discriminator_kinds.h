#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/nn/discriminator.h"

namespace nsvq {

/// A discriminator's network. discriminator_kinds.cpp lists them.
struct DiscriminatorKind {
  std::string name;  ///< in recipes, adversarial.network
  /// For images of `size` pixels a side. Throws UserError where it does not take them.
  std::function<std::shared_ptr<DiscriminatorNetwork>(const DiscriminatorConfig&, int64_t size)>
      make;
  bool batch_norm;  ///< takes dist.batch_norm
  /// adversarial.layers where nobody sets it, by the size; null: the general default.
  int64_t (*layers)(int64_t size) = nullptr;
};

const std::vector<DiscriminatorKind>& discriminator_kinds();
/// Throws UserError naming the kinds if `name` is none of them.
const DiscriminatorKind& discriminator_kind(const std::string& name);

}  // namespace nsvq
