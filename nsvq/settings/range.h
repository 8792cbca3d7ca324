#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace nsvq {

/// Which values a setting takes. For a list, `low`, `high` and `choices` hold for each entry.
struct Range {
  std::string text;  ///< shown in the reference and in error messages
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;   ///< `low` itself is not allowed
  bool below_high = false;  ///< `high` itself is not allowed
  bool path = false;        ///< a text that names a file or folder
  std::vector<std::string> choices;
  /// Words that other programs have for choices, in lower case, with the choices.
  std::map<std::string, std::string> other_words = {};
  size_t fewest = 0;  ///< entries of a list, bytes of a text
  size_t most = std::numeric_limits<size_t>::max();

  static Range at_least(double low);
  static Range above(double low);
  static Range between(double low, double high);        ///< both ends included
  static Range from_to_below(double low, double high);  ///< `high` excluded
  static Range one_of(std::vector<std::string> choices,
                      std::map<std::string, std::string> other_words = {});
  static Range yes_no();     ///< for booleans
  static Range not_empty();  ///< for texts
  static Range any_text(std::string shown);
  static Range any_path(std::string shown = "a path");
  static Range list(size_t fewest, size_t most, Range each);

  bool contains(double value) const;
  bool contains(const std::string& value) const;
};

}  // namespace nsvq
