#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "nsvq/io/images/image.h"

namespace nsvq {

/// Decodes a JPEG to upright RGB. Throws UserError, also for data that libjpeg would pad with grey,
/// and for arithmetic coding, whose decoder makes up pixels where data ends.
Image decode_jpeg(std::span<const std::byte> bytes, const std::string& name,
                  const ImageLimits& limits = {});

/// `quality` from 1 to 100, with 4:2:0 chroma.
std::vector<std::byte> encode_jpeg(const Image& image, int quality);

}  // namespace nsvq
