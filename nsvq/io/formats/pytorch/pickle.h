#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nsvq {

enum class PickleKind {
  other,     ///< None, a number with a fraction, bytes
  number,    ///< a whole number, or a bool as 0 or 1
  text,      ///< a str
  sequence,  ///< a list, a tuple or a set
  dict,      ///< a dict, also an OrderedDict or a defaultdict that is not empty
  global,    ///< a class or a function, by its name
  call,      ///< what a global makes of arguments
  outside,   ///< what lies outside of the pickle, by its description
};

/// A value in a pickle; `parts` are positions in Pickle::values.
struct PickleValue {
  PickleKind kind = PickleKind::other;
  int64_t number = 0;
  std::string text;  ///< of a text; MODULE.NAME of a global
  /// Sequence: members; dict: keys and values in turn; call: global, arguments and, if it has one,
  /// its state; outside: its description.
  std::vector<size_t> parts;
};

/// The contents of a pickle of Python. Nothing that it names is called or looked up: such values
/// stay as they are written. Values may contain each other, even themselves.
struct Pickle {
  std::vector<PickleValue> values;
  size_t root = 0;
  size_t bytes = 0;  ///< that it takes; others may follow
};

/// Reads protocols 2 to 5. Throws UserError for anything else, and for a pickle that is cut off or
/// does not add up.
Pickle parse_pickle(std::span<const std::byte> bytes);

/// Throws UserError for a pickle that names a function which can only be meant to run something
/// where Python reads it: of the operating system, of Python's own loaders and evaluators. Nothing
/// is run here, whatever a pickle names.
void refuse_hostile(const Pickle& pickle);

}  // namespace nsvq
