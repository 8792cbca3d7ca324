#include "nsvq/report/alarms.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <unordered_map>

namespace nsvq {

std::vector<RaisedAlarm> raised_alarms(const RunLog& log) {
  std::vector<RaisedAlarm> alarms;
  std::unordered_map<std::string, size_t> places;  // by sign
  for (const Record* record : log.of_kind("alarm")) {
    const auto [place, fresh] = places.try_emplace(record->sign, alarms.size());
    if (fresh) alarms.push_back({record->sign, "", {}, {}});
    auto& alarm = alarms[place->second];
    alarm.reason = record->reason;
    if (!alarm.epochs.empty() && alarm.epochs.back() == record->epoch) continue;
    alarm.epochs.push_back(record->epoch);
    alarm.steps.push_back(record->step);
  }
  return alarms;
}

std::string epochs_in_words(const std::vector<double>& epochs) {
  std::string out = epochs.size() == 1 ? "epoch" : "epochs";
  for (size_t first = 0, end = 0; first < epochs.size(); first = end) {
    for (end = first + 1; end < epochs.size() && epochs[end] <= epochs[end - 1] + 1;) ++end;
    out += fmt::format("{} {:.0f}", first > 0 ? "," : "", epochs[first]);
    if (end > first + 1) out += fmt::format(" to {:.0f}", epochs[end - 1]);
  }
  return out;
}

}  // namespace nsvq
