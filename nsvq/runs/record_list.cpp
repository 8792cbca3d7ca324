#include "nsvq/runs/record_list.h"

namespace nsvq {

namespace {

/// What tells records of one kind and step from each other; null where there is one of each step.
const std::string* name_in_step(const Record& record) {
  if (record.kind == "phase") return &record.phase;
  if (record.kind == "alarm") return &record.sign;
  return nullptr;
}

}  // namespace

/// Of the records of a kind that are kept; -1 if there are none.
double RecordList::last_step(const std::string& kind) {
  const auto found = by_kind_.find(kind);
  if (found == by_kind_.end()) return -1;
  auto& places = found->second;
  while (!places.empty() && !is_kept(places.back())) places.pop_back();
  return places.empty() ? -1 : records_[places.back()].step;
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
  const size_t place = records_.size();
  by_step_.emplace(record.step, place);
  by_kind_[record.kind].push_back(place);
  if (const auto* name = name_in_step(record)) named_[{record.kind, record.step, *name}] = place;
  records_.push_back(std::move(record));
}

std::vector<Record> RecordList::take() {
  if (forgot_) std::erase_if(records_, [](const Record& record) { return record.kind.empty(); });
  return std::move(records_);
}

}  // namespace nsvq
