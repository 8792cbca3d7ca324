#include "nsvq/nn/discriminator_kinds.h"

#include "nsvq/core/lookup.h"
#include "nsvq/nn/style_discriminator.h"

namespace nsvq {

namespace {

std::shared_ptr<DiscriminatorNetwork> make_patch(const DiscriminatorConfig& options, int64_t size) {
  auto network = std::make_shared<DiscriminatorImpl>(options);
  network->check_image_size(size, size);
  return network;
}

std::shared_ptr<DiscriminatorNetwork> make_style(const DiscriminatorConfig& options, int64_t size) {
  return std::make_shared<StyleDiscriminatorImpl>(options, size);
}

}  // namespace

const std::vector<DiscriminatorKind>& discriminator_kinds() {
  static const std::vector<DiscriminatorKind> kinds = {
      {.name = "patch", .make = make_patch, .batch_norm = true},
      {.name = "stylegan", .make = make_style, .batch_norm = false, .layers = style_layers},
  };
  return kinds;
}

const DiscriminatorKind& discriminator_kind(const std::string& name) {
  return find_named(discriminator_kinds(), "network", name, "adversarial.network");
}

}  // namespace nsvq
