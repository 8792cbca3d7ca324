#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nsvq/data/sources/source.h"
#include "nsvq/io/images/image.h"

namespace nsvq {

/// A procedural size x size picture with the statistics of photographs: 20 to 70 shaded ellipses
/// and boxes of power-law size that occlude each other, with 1/f texture. A pure function of its
/// arguments. It uses no libm function but sqrt, so machines agree except where a compiler fuses
/// a*b+c (single values differ by one grey level; none with -ffp-contract=off).
Image dead_leaves(uint64_t seed, int64_t index, int size);

/// Opens a procedural source; `text` is the part after `builtin:`, as in
/// `dead-leaves?size=64&count=2048&seed=0`. Throws UserError for an unknown name or parameter and
/// for a value out of range.
std::unique_ptr<Source> open_builtin(const std::string& text);

/// What decides a procedural source's pictures, without their number: sources with equal ones have
/// equal pictures under equal names.
std::string drawn_pictures(const std::string& text);

}  // namespace nsvq
