#pragma once

#include <string>
#include <vector>

namespace nsvq {

/// A line of a curve: the values of one key in the records of one kind.
struct CurveLine {
  std::string kind, key, name;
};

struct Curve {
  std::string title, y_label;
  std::vector<CurveLine> lines;
  bool decades = false;  ///< lines that are zero throughout are absent; logarithmic at need
};

struct CurveTopic {
  std::string title;
  std::vector<Curve> curves;
};

/// Every curve that a report knows by name, in the order of the page.
const std::vector<CurveTopic>& known_curves();

}  // namespace nsvq
