#include "nsvq/io/files/resumable_folder.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/json.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr auto kRecordName = ".nsvq-incomplete.json";
constexpr auto kCompleteName = ".nsvq-complete.json";
constexpr auto kTemporaryName = ".nsvq-incomplete.tmp";
constexpr auto kRecordFormat = "nsvq-incomplete-folder";
constexpr int kRecordVersion = 1;
constexpr std::chrono::seconds kLongestUnrecorded{10};

/// Whether the folder contains nothing, or only hidden files of this class: a process was killed
/// right at its start, or the user removed all visible files.
bool holds_nothing(const fs::path& folder) {
  return std::all_of(entries_of(folder), fs::directory_iterator(), [](const auto& entry) {
    const auto name = entry.path().filename();
    return (name == kTemporaryName || name == kCompleteName) &&
           fs::is_regular_file(entry.symlink_status());
  });
}

/// Throws UserError if a folder of `name` below `folder` is a link.
void refuse_links(const fs::path& folder, const fs::path& name) {
  auto below = folder;
  for (const auto& part : name.parent_path()) {
    below /= part;
    std::error_code ignored;
    if (!fs::is_symlink(below, ignored)) continue;
    throw UserError("{}: a link, and nothing outside {} is written to; remove it", below.string(),
                    folder.string());
  }
}

/// The first setting that differs, as "format jpeg there, png now".
std::optional<std::string> different_setting(const ResumableFolder::Settings& now,
                                             const ResumableFolder::Settings& there) {
  const auto value = [](const auto& settings, const std::string& name) {
    const auto found = settings.find(name);
    if (found == settings.end()) return std::string("none");
    constexpr size_t most = 40;  // hashes are longer; their beginning is enough
    return found->second.size() > most ? found->second.substr(0, 16) : found->second;
  };
  auto names = now;
  names.insert(there.begin(), there.end());
  for (const auto& [name, ignored] : names) {
    const bool equal = now.contains(name) && there.contains(name) && now.at(name) == there.at(name);
    if (!equal) {
      return fmt::format("{} {} there, {} now", name, value(there, name), value(now, name));
    }
  }
  return std::nullopt;
}

}  // namespace

bool is_record_name(std::string_view name) {
  return name == kRecordName || name == kCompleteName || name == kTemporaryName;
}

void require_fillable(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return;
  if (fs::is_directory(folder, error) &&
      (fs::exists(folder / kRecordName, error) || fs::exists(folder / kCompleteName, error) ||
       holds_nothing(folder))) {
    return;
  }
  throw UserError("{}: exists and is not an empty folder; choose another", folder.string());
}

ResumableFolder::ResumableFolder(fs::path folder, Settings settings, int64_t files_per_record)
    : folder_(folder.has_filename() ? folder : folder.parent_path()),  // "folder/"
      record_(folder_ / kRecordName),
      complete_record_(folder_ / kCompleteName),
      temporary_(folder_ / kTemporaryName),
      settings_(std::move(settings)),
      files_per_record_(files_per_record) {
  require_fillable(folder_);
  made_here_ = make_named_folder(folder_);
  auto lock = FolderLock::try_take_folder(folder_);
  if (!lock) throw UserError("{}: another process writes there", folder_.string());
  lock_.emplace(std::move(*lock));
  std::error_code error;
  if (fs::exists(record_, error)) {
    load_record();
  } else if (fs::exists(complete_record_, error) && !holds_nothing(folder_)) {
    complete_ = true;
    load_record();
  } else {
    require_fillable(folder_);  // another process may have filled it
    write_record();
  }
  recorded_ = std::chrono::steady_clock::now();
}

ResumableFolder::~ResumableFolder() {
  if (complete_) return;
  try {
    // An earlier run may have left files beyond its record: without one the folder would be
    // refused.
    if (done_ > 0 || files_since_record_ > 0 || begun_before_) {
      write_record();
      return;
    }
    std::error_code ignored;
    fs::remove(temporary_, ignored);
    fs::remove(record_, ignored);
    if (made_here_) fs::remove(folder_, ignored);
  } catch (const std::exception&) {
    // The existing record names an earlier position: some files are written again, none is lost.
  }
}

void ResumableFolder::load_record() {
  Settings settings;
  bool readable = false;
  try {
    const auto fields = read_json(record());
    readable = fields.at("format") == kRecordFormat && fields.at("version") == kRecordVersion;
    if (readable) {
      settings = fields.at("settings").get<Settings>();
      done_ = whole_number(fields.at("done"), "done");
      for (const auto& position : fields.at("left_out")) {
        const int64_t least = left_out_.empty() ? 0 : left_out_.back() + 1;
        left_out_.push_back(whole_number(position, "left_out", least, done_ - 1));
      }
    }
  } catch (const std::exception&) {
    throw UserError("{}: is damaged; choose another folder, or remove this one", record().string());
  }
  if (!readable) throw UserError("{}: of another version of this program", record().string());
  begun_before_ = true;
  if (const auto difference = different_setting(settings_, settings)) {
    throw UserError("{}: was {} with other settings: {}; {}choose another folder", folder_.string(),
                    complete_ ? "made" : "begun", *difference,
                    complete_ ? "" : "complete it by the command that began it, or ");
  }
}

std::optional<ResumableFolder::Settings> recorded_settings(const fs::path& folder) {
  for (const auto* name : {kRecordName, kCompleteName}) {
    try {
      const auto fields = read_json(folder / name);
      if (fields.at("format") != kRecordFormat) continue;
      return fields.at("settings").get<ResumableFolder::Settings>();
    } catch (const std::exception&) {
      continue;  // none, or damaged: opening the folder says so
    }
  }
  return std::nullopt;
}

void ResumableFolder::require_done(const Plan& plan,
                                   const std::function<std::string(int64_t)>& name_of) const {
  const auto fail = [&](const std::string& why) {
    throw UserError("{}: {}; remove the folder, or choose another", record().string(), why);
  };
  if (done_ > plan.positions || (done_ % plan.step != 0 && done_ != plan.positions) ||
      (!plan.leaves_out && !left_out_.empty())) {
    fail(fmt::format("records {} of {} as done, which this command cannot have left", done_,
                     plan.positions));
  }
  auto next = left_out_.begin();
  int64_t files = 0;
  for (int64_t i = 0; i < done_ && files < plan.files; ++i) {
    if (next != left_out_.end() && *next == i) {
      ++next;
      continue;
    }
    const auto name = name_of(i);
    std::error_code ignored;
    if (!fs::is_regular_file(fs::symlink_status(folder_ / name, ignored))) {
      fail(fmt::format("records {} of {} as done, but {} is missing", done_, plan.positions,
                       quote(name)));
    }
    ++files;
  }
  if (complete_ && done_ != plan.positions && files != plan.files) {
    fail(fmt::format("is of {} images, but this command makes {}", done_, plan.positions));
  }
}

void ResumableFolder::go_back(int64_t done, const std::string& image) {
  log("{}: {} was skipped as broken before and can be read now; continuing from it",
      folder_.string(), quote(image));
  done_ = done;
  std::erase_if(left_out_, [&](int64_t position) { return position >= done; });
  write_record();  // before the record of the complete folder is removed
  complete_ = false;
  std::error_code ignored;
  fs::remove(complete_record_, ignored);
}

void ResumableFolder::write_record() {
  if (files_since_record_ > 0) sync_file_system(folder_);
  const Json fields = {{"format", kRecordFormat},
                       {"version", kRecordVersion},
                       {"settings", settings_},
                       {"done", done_},
                       {"left_out", left_out_}};
  const auto text = fields.dump() + "\n";
  replace_file(record_, temporary_, std::as_bytes(std::span(text)), Sync::yes);
  files_since_record_ = 0;
  recorded_ = std::chrono::steady_clock::now();
}

void ResumableFolder::write(const std::string& name, std::span<const std::byte> bytes) {
  refuse_links(folder_, name);
  ++files_since_record_;
  replace_file(folder_ / name, temporary_, bytes, Sync::no);
}

void ResumableFolder::advance(int64_t done, const std::vector<int64_t>& left_out) {
  done_ = done;
  left_out_.insert(left_out_.end(), left_out.begin(), left_out.end());
  const auto unrecorded = std::chrono::steady_clock::now() - recorded_;
  if (files_since_record_ >= files_per_record_ || unrecorded >= kLongestUnrecorded) write_record();
}

void ResumableFolder::finish() {
  if (complete_) {
    log("{}: complete already; if the command's input has changed since, remove the folder to make "
        "it anew",
        folder_.string());
    return;
  }
  write_record();
  if (rename_file(record_, complete_record_) != 0) fail_write(complete_record_, errno);
  complete_ = true;
}

}  // namespace nsvq
