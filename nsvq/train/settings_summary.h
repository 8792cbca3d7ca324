#pragma once

#include <string>

#include "nsvq/core/config.h"

namespace nsvq {

/// The settings to read at the start of a run, a line each: those that decide what is trained and
/// how long, and those that differ from their defaults. config.yaml has them all.
std::string summarize_settings(const Config& config);

}  // namespace nsvq
