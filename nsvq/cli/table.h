#pragma once

#include <map>
#include <string>

namespace nsvq {

/// The figures of an evaluation as lines for people: a name, a value, its unit or meaning.
std::string metric_table(const std::map<std::string, double>& values);

}  // namespace nsvq
