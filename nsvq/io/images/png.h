#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "nsvq/io/images/image.h"

namespace nsvq {

/// Decodes a PNG to upright RGB; transparency is dropped, not blended. Throws UserError.
Image decode_png(std::span<const std::byte> bytes, const std::string& name,
                 const ImageLimits& limits = {});

}  // namespace nsvq
