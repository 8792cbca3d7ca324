#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <queue>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nsvq {

/// Numbers by name, sorted by name. A log has millions of these with the same few names, so each
/// name is stored once for the whole program: 24 bytes a number, where a map of strings takes 80 or
/// more.
class NamedNumbers {
 public:
  using Items = std::vector<std::pair<std::string_view, double>>;

  /// A name that is there keeps its number.
  void add(std::string_view name, double value);
  Items::const_iterator find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != end(); }
  Items::const_iterator begin() const { return items_.begin(); }
  Items::const_iterator end() const { return items_.end(); }
  size_t size() const { return items_.size(); }

 private:
  Items items_;
};

/// One line of metrics.jsonl.
struct Record {
  std::string kind;  ///< step, epoch, eval, drift, check, phase, alarm, or one of later days
  std::string phase;
  std::string reason;  ///< why a phase began or an alarm was raised
  std::string sign;    ///< name of an alarm's sign
  double step = 0;
  double epoch = 0;
  NamedNumbers values;  ///< every other number; null (not finite) is NaN
};

/// What a run has written down so far.
struct RunLog {
  std::vector<Record> records;
  int unreadable = 0;  ///< lines that were no record

  /// (step, value) of a key in the records of a kind.
  std::vector<std::pair<double, double>> values(const std::string& kind,
                                                const std::string& key) const;
  std::vector<const Record*> of_kind(const std::string& kind) const;
  /// The records for a curve or a figure of a key. For what is counted over an epoch (its codes,
  /// its seconds), epochs that the budget cut short are left out unless there are no others.
  std::vector<const Record*> of_kind_for(const std::string& kind, const std::string& key) const;
  /// Where each phase began. A run that noted only the later ones has its first added from the
  /// records.
  std::vector<Record> phases() const;
  double last_step() const;
  double last_epoch() const;
};

/// Takes the records of a log in the order of its lines. A record that repeats one, or whose step
/// is before the last of its kind, shows that the run was resumed in between: it replaces the
/// repeated one, and all of later steps are dropped. The time is about proportional to the number
/// of records, whatever they are.
class RecordList {
 public:
  void add(Record record);
  /// Those that were not forgotten, in order. Ends the list.
  std::vector<Record> take();

 private:
  bool is_kept(size_t index) const { return !records_[index].kind.empty(); }
  double last_step(const std::string& kind);
  bool is_repeated(const Record& next);
  void forget_after(double step);
  void forget_equal(const Record& next);

  std::vector<Record> records_;  // without a kind: forgotten
  bool forgot_ = false;
  std::priority_queue<std::pair<double, size_t>> by_step_;  // indices, the latest step first
  // Indices by kind. Steps of one kind never fall: a record of an earlier step makes the later ones
  // forgotten.
  std::unordered_map<std::string, std::vector<size_t>> by_kind_;
  // A step may have several phases and alarms, each with its name.
  std::map<std::tuple<std::string, double, std::string>, size_t> named_;
};

/// Lines that do not parse are counted and left out (a killed run tears its last one). Where a
/// resumed run repeats steps, the later writing counts.
RunLog parse_run_log(const std::string& text);
/// Reads a file line by line: its text is never whole in memory. Throws UserError.
RunLog read_run_log(const std::filesystem::path& path);
/// Reads a log for figures that do not need every step, in bounded time: of a file of n times
/// `whole` bytes every n-th line of steps, those of its last 64 KiB, and all other lines.
RunLog read_thinned_run_log(const std::filesystem::path& path, uint64_t whole = 4 << 20);

}  // namespace nsvq
