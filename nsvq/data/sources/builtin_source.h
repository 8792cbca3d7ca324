#pragma once

#include <memory>
#include <string>

#include "nsvq/data/sources/source.h"

namespace nsvq {

/// Opens a procedural source; `text` is the part after `builtin:`, as in
/// `dead-leaves?size=64&count=2048&seed=0`. Throws UserError for an unknown name or parameter and
/// for a value out of range.
std::unique_ptr<Source> open_builtin(const std::string& text);

}  // namespace nsvq
