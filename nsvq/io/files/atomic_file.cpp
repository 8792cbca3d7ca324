#include "nsvq/io/files/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/file.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

fs::path temporary_name(const fs::path& path) {
  static std::atomic<uint64_t> counter{0};
  return parent_of(path) /
         fmt::format(".{}.tmp-{}-{}", path.filename().string(), ::getpid(), counter++);
}

/// Whether temporary_name gives `name` for a final name that begins with `beginning`.
bool is_temporary_name(std::string_view name, std::string_view beginning) {
  constexpr std::string_view kMark = ".tmp-";
  const size_t mark = name.rfind(kMark);
  if (mark == std::string_view::npos || mark < 2 || !name.starts_with('.')) return false;
  const auto numbers = name.substr(mark + kMark.size());
  const size_t between = numbers.find('-');
  return name.substr(1, mark - 1).starts_with(beginning) && between != std::string_view::npos &&
         parse_decimal(numbers.substr(0, between)) && parse_decimal(numbers.substr(between + 1));
}

// Swaps the names of the folders `fresh` and `old`.
void exchange_folders(const fs::path& fresh, const fs::path& old) {
  const auto exchange = [&] {
    return ::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, old.c_str(), RENAME_EXCHANGE);
  };
  if (retry_interrupted(exchange) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) fail_write(old, errno);
  // A file system without exchange: in three steps, undone if the second fails.
  const fs::path aside = temporary_name(old);
  if (rename_file(old, aside) != 0) fail_write(old, errno);
  if (rename_file(fresh, old) != 0) {
    const int error = errno;
    std::error_code ignored;
    fs::rename(aside, old, ignored);
    fail_write(old, error);
  }
  if (rename_file(aside, fresh) != 0) fail_write(fresh, errno);
}

// link_if_new for a file system without hard links.
bool rename_if_new(const fs::path& from, const fs::path& to) {
  const auto rename = [&] {
    return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
  };
  if (retry_interrupted(rename) == 0) return true;
  if (errno == EEXIST) return false;
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) fail_write(to, errno);
  // No such rename either: an empty file reserves the name until the rename.
  const Descriptor empty = open_file(to, O_WRONLY | O_CREAT | O_EXCL);
  if (!empty && errno == EEXIST) return false;
  if (!empty || rename_file(from, to) != 0) fail_write(to, errno);
  return true;
}

// Moves the file `from` to the name `to`; false if that name is in use.
bool link_if_new(const fs::path& from, const fs::path& to) {
  if (retry_interrupted([&] { return ::link(from.c_str(), to.c_str()); }) == 0) return true;
  const int error = errno;
  struct stat info {};
  // A network file system may have made the link and lost the answer.
  if (::stat(from.c_str(), &info) == 0 && info.st_nlink == 2) return true;
  if (error == EEXIST) return false;
  if (error != EPERM && error != ENOSYS && error != EOPNOTSUPP) fail_write(to, error);
  return rename_if_new(from, to);
}

void sync_tree(const fs::path& folder) try {
  for (const auto& entry : entries_of(folder)) {
    const fs::file_status status = entry.symlink_status();
    if (fs::is_directory(status)) sync_tree(entry.path());
    if (fs::is_regular_file(status)) sync_path(entry.path());
  }
  sync_path(folder);
} catch (const fs::filesystem_error& error) {
  fail_write(folder, error.code().value());
}

}  // namespace

bool names_descriptor(fs::path path) {
  std::error_code error;
  for (int links = 0; links < 40; ++links) {
    const auto folder = fs::canonical(parent_of(path), error).string();
    if (!error && folder.starts_with("/proc/") && folder.ends_with("/fd")) return true;
    const auto target = fs::read_symlink(path, error);
    if (error) return false;
    path = parent_of(path) / target;
  }
  return false;
}

AtomicFile::AtomicFile(fs::path final_path) : final_(std::move(final_path)) {
  make_folders(parent_of(final_));
  struct stat info {};
  const bool exists = ::stat(final_.c_str(), &info) == 0;
  if (!final_.has_filename() || (exists && S_ISDIR(info.st_mode))) fail_write(final_, EISDIR);
  if (exists && S_ISREG(info.st_mode) && names_descriptor(final_)) {
    throw UserError("{}: stands for an open file; name the file itself", final_.string());
  }
  if (exists && !S_ISREG(info.st_mode)) {
    file_ = open_file(final_, O_WRONLY);  // renaming over /dev/null would replace it
  } else {
    do {  // a name in use was left by an earlier process with our number
      temporary_ = temporary_name(final_);
      file_ = open_file(temporary_, O_WRONLY | O_CREAT | O_EXCL);
    } while (!file_ && errno == EEXIST);
  }
  if (!file_) fail_write(final_, errno);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) { write_all(final_, file_.get(), bytes); }

void AtomicFile::commit() {
  sync_descriptor(final_, file_.get());
  if (!temporary_.empty()) {
    if (rename_file(temporary_, final_) != 0) fail_write(final_, errno);
    temporary_.clear();
    sync_path(parent_of(final_));
  }
  ::close(file_.release());
}

bool AtomicFile::commit_if_new(Sync sync) {
  if (temporary_.empty()) return false;  // a device or a pipe has the name
  if (sync == Sync::yes) sync_descriptor(final_, file_.get());
  // Closed before it gets its name: a network file system sends the data when a file is closed.
  if (::close(file_.release()) != 0 && errno != EINTR) fail_write(final_, errno);
  const bool made = link_if_new(temporary_, final_);
  ::unlink(temporary_.c_str());
  temporary_.clear();
  if (made && sync == Sync::yes) sync_path(parent_of(final_));
  return made;
}

AtomicFolder::AtomicFolder(fs::path final_path) : final_(std::move(final_path)) {
  if (!final_.has_filename()) final_ = final_.parent_path();  // "folder/"
  make_folders(parent_of(final_));
  int made = -1;
  do {
    temporary_ = temporary_name(final_);
    made = ::mkdir(temporary_.c_str(), 0777);
  } while (made != 0 && errno == EEXIST);
  if (made != 0) fail_write(final_, errno);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  sync_tree(temporary_);
  std::error_code ignored;
  if (fs::exists(final_, ignored) && !fs::is_directory(final_, ignored)) {
    throw RunError("cannot write folder {}: a file has that name", final_.string());
  }
  if (rename_file(temporary_, final_) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) fail_write(final_, errno);
    exchange_folders(temporary_, final_);
  }
  committed_ = true;
  sync_path(parent_of(final_));
  fs::remove_all(temporary_, ignored);  // the older one, if there was one
}

void AtomicFolder::commit_if_free() {
  sync_tree(temporary_);
  if (rename_file(temporary_, final_) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) fail_write(final_, errno);
    throw UserError("{}: is no empty folder; choose another", final_.string());
  }
  committed_ = true;
  sync_path(parent_of(final_));
}

bool is_unfinished(const fs::path& path) { return is_temporary_name(path.filename().string(), ""); }

void remove_unfinished(const fs::path& folder, std::initializer_list<std::string_view> beginnings) {
  std::error_code ignored;
  std::vector<fs::path> unfinished;
  for (const auto& entry : entries_of(folder, ignored)) {
    const auto name = entry.path().filename().string();
    const auto is_one = [&](std::string_view start) { return is_temporary_name(name, start); };
    if (std::ranges::any_of(beginnings, is_one)) unfinished.push_back(entry.path());
  }
  for (const auto& path : unfinished) fs::remove_all(path, ignored);
}

}  // namespace nsvq
