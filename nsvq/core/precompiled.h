// The headers that most translation units include, parsed once (cmake/folder.cmake). Sources still
// include what they use.
#pragma once

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>
