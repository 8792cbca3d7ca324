#pragma once

#include <cstddef>
#include <map>
#include <queue>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nsvq/runs/run_log.h"

namespace nsvq {

/// Takes the records of a log in the order of its lines. A record that says anew what one before it
/// said shows that the run was resumed in between: it and all of later steps are then forgotten.
/// The time is about proportional to the number of records, whatever they are.
class RecordList {
 public:
  void add(Record record);
  /// Those that were not forgotten, in order. Ends the list.
  std::vector<Record> take();

 private:
  bool is_kept(size_t place) const { return !records_[place].kind.empty(); }
  double last_step(const std::string& kind);
  bool is_repeated(const Record& next);
  void forget_after(double step);
  void forget_equal(const Record& next);

  std::vector<Record> records_;  // without a kind: forgotten
  bool forgot_ = false;
  std::priority_queue<std::pair<double, size_t>> by_step_;  // places, the latest step first
  // Places by kind. Steps of one kind never fall: a record of an earlier step makes the later ones
  // forgotten.
  std::unordered_map<std::string, std::vector<size_t>> by_kind_;
  // Of one step there may be several phases and alarms, each with its name.
  std::map<std::tuple<std::string, double, std::string>, size_t> named_;
};

}  // namespace nsvq
