#pragma once

#include <map>
#include <string>

namespace nsvq {

/// Words by which other programs call settings, in lower case, each with the key that it has here.
const std::map<std::string, std::string>& words_of_other_programs();

}  // namespace nsvq
