#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "nsvq/settings/range.h"
#include "nsvq/tokens/token_folder.h"

namespace CLI {
class App;
}

namespace nsvq {

// For CLI::Option::check: what is wrong with a value, or an empty text.

/// A finite number in the range; CLI11's own ranges accept NaN.
std::function<std::string(const std::string&)> check_number(const Range& range);
std::string check_seed(const std::string& text);

// Options that several commands have.

void declare_device(CLI::App& app, std::string& device);
/// `verb`: what so many GPUs do, such as "evaluate".
void declare_gpus(CLI::App& app, int& gpus, const std::string& verb);
/// Seconds after which processes that work together give up on one that is silent.
void declare_timeout(CLI::App& app, double& seconds);

/// The share of the work that `--part` names: "K/N", "auto" for the environment's, or "" where it
/// is not given, which is torchrun's share where that has started several processes, else all of
/// it. Throws UserError.
WorkPart choose_part(const std::string& option);

}  // namespace nsvq
