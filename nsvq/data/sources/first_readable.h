#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "nsvq/data/sources/source.h"

namespace nsvq {

/// The first of these images, in rising order, that can be decoded and does not make `use` throw
/// UserError; none of what a record calls broken if that is true. Throws RunError where a source
/// cannot be read at all.
std::optional<int64_t> first_readable(const Source& source, const std::vector<int64_t>& images,
                                      const std::function<void(const Image&)>& use = {});

}  // namespace nsvq
