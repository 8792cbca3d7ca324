#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "nsvq/core/error.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/runs/checkpoint.h"

namespace nsvq {

// A tokenizer's training state, in state.json under "task".

/// Calls `read` with the parsed text. Throws UserError naming the state.json of `from` where it is
/// damaged.
template <typename Read>
void read_task_state(const std::string& text, const std::string& from, const Read& read) {
  try {
    read(parse_json(text));
  } catch (const nlohmann::json::exception& error) {
    throw UserError("{}: state.json: not a tokenizer's training state ({})", from,
                    plain_words(error));
  } catch (const UserError& error) {
    throw UserError("{}: state.json: {}", from, error.what());
  }
}

/// A number, or NaN, for which JSON has null.
inline double number_or_nan(const nlohmann::json& value) {
  return value.is_null() ? NAN : value.get<double>();
}

/// The whole number from 0 to `most` of a key. Throws UserError naming it.
inline int64_t task_count(const nlohmann::json& all, const std::string& key,
                          int64_t most = kMostCounted) {
  return whole_number(all.at(key), "task." + key, 0, most);
}

}  // namespace nsvq
