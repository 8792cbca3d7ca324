#include "nsvq/runs/log.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "nsvq/core/error.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/io/formats/json.h"

namespace nsvq {

namespace {

/// A copy of the text that lasts as long as the program; equal names share one.
std::string_view lasting(std::string_view name) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> names;
  const std::lock_guard lock(mutex);
  const auto found = names.find(name);
  return found != names.end() ? *found : *names.emplace(name).first;
}

bool before(const std::pair<std::string_view, double>& item, std::string_view name) {
  return item.first < name;
}

}  // namespace

void NamedNumbers::add(std::string_view name, double value) {
  const auto at = std::lower_bound(items_.begin(), items_.end(), name, before);
  if (at != items_.end() && at->first == name) return;
  items_.emplace(at, lasting(name), value);
}

NamedNumbers::Items::const_iterator NamedNumbers::find(std::string_view name) const {
  const auto at = std::lower_bound(items_.begin(), items_.end(), name, before);
  return at != items_.end() && at->first == name ? at : items_.end();
}

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

namespace {

/// What distinguishes records of one kind and step; null for kinds with one record a step.
const std::string* name_in_step(const Record& record) {
  if (record.kind == "phase") return &record.phase;
  if (record.kind == "alarm") return &record.sign;
  return nullptr;
}

}  // namespace

/// The last step among the kept records of a kind; -1 if there are none.
double RecordList::last_step(const std::string& kind) {
  const auto found = by_kind_.find(kind);
  if (found == by_kind_.end()) return -1;
  auto& indices = found->second;
  while (!indices.empty() && !is_kept(indices.back())) indices.pop_back();
  return indices.empty() ? -1 : records_[indices.back()].step;
}

bool RecordList::is_repeated(const Record& next) {
  const double last = last_step(next.kind);
  if (last != next.step) return next.step < last;
  const auto* name = name_in_step(next);
  return name == nullptr || named_.contains({next.kind, next.step, *name});
}

void RecordList::forget_after(double step) {
  for (; !by_step_.empty() && by_step_.top().first > step; by_step_.pop()) {
    auto& record = records_[by_step_.top().second];
    if (const auto* name = name_in_step(record)) named_.erase({record.kind, record.step, *name});
    record = {};
  }
}

/// The record of the same kind and step, and of the same name where records have one.
void RecordList::forget_equal(const Record& next) {
  if (const auto* name = name_in_step(next)) {
    const auto found = named_.find({next.kind, next.step, *name});
    if (found == named_.end()) return;
    records_[found->second] = {};
    named_.erase(found);
  } else if (last_step(next.kind) == next.step) {
    records_[by_kind_[next.kind].back()] = {};
  }
}

void RecordList::add(Record record) {
  if (is_repeated(record)) {
    forgot_ = true;
    forget_after(record.step);
    forget_equal(record);
  }
  const size_t index = records_.size();
  by_step_.emplace(record.step, index);
  by_kind_[record.kind].push_back(index);
  if (const auto* name = name_in_step(record)) named_[{record.kind, record.step, *name}] = index;
  records_.push_back(std::move(record));
}

std::vector<Record> RecordList::take() {
  if (forgot_) std::erase_if(records_, [](const Record& record) { return record.kind.empty(); });
  return std::move(records_);
}

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

RunLog read_thinned_run_log(const std::filesystem::path& path, uint64_t whole) {
  constexpr uint64_t kept_at_end = 1 << 16;
  const uint64_t size = InputFile(path).size(), every = size / whole + 1;
  LogReader log;
  LineReader lines(path);
  uint64_t read = 0, steps = 0;
  while (const auto line = lines.next()) {
    read += line->size() + 1;
    const bool may_go = every > 1 && read + kept_at_end < size &&
                        line->find(R"("kind":"step")") != std::string::npos;
    if (!may_go || steps++ % every == 0) log.add(*line);
  }
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
