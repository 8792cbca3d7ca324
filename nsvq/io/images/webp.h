#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "nsvq/io/images/image.h"

namespace nsvq {

/// By the first bytes.
bool is_webp(std::span<const std::byte> bytes);

/// Decodes a WebP of one picture to upright RGB; transparency is dropped, not blended. Throws
/// UserError, also for an animation.
Image decode_webp(std::span<const std::byte> bytes, const std::string& name,
                  const ImageLimits& limits = {});

}  // namespace nsvq
