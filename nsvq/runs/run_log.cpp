#include "nsvq/runs/run_log.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "nsvq/core/error.h"
#include "nsvq/io/files/line_reader.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/runs/record_list.h"

namespace nsvq {
namespace {

/// The value on a line, or null.
nlohmann::json parse_line(const std::string& line) {
  try {
    return parse_json(line);
  } catch (const UserError&) {
    return nullptr;
  }
}

std::optional<Record> parse_record(const std::string& line) {
  const auto object = parse_line(line);
  if (!object.is_object()) return {};
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  Record record;
  double step = nan, epoch = nan;
  for (const auto& [key, value] : object.items()) {
    if (value.is_string()) {
      if (key == "kind") record.kind = value;
      if (key == "phase") record.phase = value;
      if (key == "reason") record.reason = value;
      if (key == "sign") record.sign = value;
    } else if (value.is_number() || value.is_null()) {
      const double number = value.is_null() ? nan : value.get<double>();
      if (key == "step") {
        step = number;
      } else if (key == "epoch") {
        epoch = number;
      } else {
        record.values.add(key, number);
      }
    }
  }
  if (record.kind.empty() || !(step >= 0)) return {};
  record.step = step;
  if (epoch >= 0) record.epoch = epoch;
  return record;
}

/// The lines of a log on their way to records.
class LogReader {
 public:
  void add(const std::string& line) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) return;
    auto record = parse_record(line);
    if (record) {
      records_.add(std::move(*record));
    } else {
      ++unreadable_;
    }
  }
  RunLog finish() { return {records_.take(), unreadable_}; }

 private:
  RecordList records_;
  int unreadable_ = 0;
};

}  // namespace

RunLog parse_run_log(const std::string& text) {
  LogReader log;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) log.add(line);
  return log.finish();
}

RunLog read_run_log(const std::filesystem::path& path) {
  LogReader log;
  LineReader lines(path);
  while (const auto line = lines.next()) log.add(*line);
  return log.finish();
}

std::vector<std::pair<double, double>> RunLog::values(const std::string& kind,
                                                      const std::string& key) const {
  std::vector<std::pair<double, double>> out;
  for (const Record& record : records) {
    if (record.kind != kind) continue;
    const auto found = record.values.find(key);
    if (found != record.values.end()) out.emplace_back(record.step, found->second);
  }
  return out;
}

std::vector<const Record*> RunLog::of_kind(const std::string& kind) const {
  std::vector<const Record*> out;
  for (const Record& record : records)
    if (record.kind == kind) out.push_back(&record);
  return out;
}

std::vector<const Record*> RunLog::of_kind_for(const std::string& kind,
                                               const std::string& key) const {
  static const std::set<std::string> counted = {"utilisation", "perplexity", "replaced", "seconds"};
  auto out = of_kind(kind);
  if (kind != "epoch" || !counted.contains(key)) return out;
  const auto is_cut = [](const Record* record) { return record->values.contains("cut"); };
  if (!std::all_of(out.begin(), out.end(), is_cut)) std::erase_if(out, is_cut);
  return out;
}

std::vector<Record> RunLog::phases() const {
  std::vector<Record> out;
  for (const Record& record : records) {
    const bool named = !record.phase.empty();
    if (out.empty() && record.kind != "phase" && named) {
      Record first;
      first.phase = record.phase;
      first.epoch = std::min(record.epoch, 1.0);
      out.push_back(first);
    }
    if (record.kind == "phase") out.push_back(record);
  }
  return out;
}

double RunLog::last_step() const {
  double last = 0;
  for (const Record& record : records) last = std::max(last, record.step);
  return last;
}

double RunLog::last_epoch() const {
  double last = 0;
  for (const Record& record : records) last = std::max(last, record.epoch);
  return last;
}

}  // namespace nsvq
