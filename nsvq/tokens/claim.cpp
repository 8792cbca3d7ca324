#include "nsvq/tokens/claim.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>
#include <tuple>
#include <utility>

#include "nsvq/core/environment.h"
#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/json.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// The scope in which a process number is unique: this boot of this machine, and the container in
/// it. Empty if the system does not tell.
std::string machine() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code error;
  const auto processes = fs::read_symlink("/proc/self/ns/pid", error);
  return boot.empty() || error ? "" : boot + " " + processes.string();
}

/// Start time of a process in the system's ticks, which distinguishes it from a later process with
/// the same number. nullopt if there is no such process, or if it is a zombie.
std::optional<int64_t> start_of_process(int64_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string state, skipped;
  int64_t start = 0;
  fields >> state;
  for (int i = 0; i < 18; ++i) fields >> skipped;
  fields >> start;
  if (!fields || state == "Z" || state == "X") return std::nullopt;
  return start;
}

/// The text of a new claim's file; unique.
std::string describe_owner() {
  static std::atomic<int64_t> claims{0};
  const Json owner = {{"host", host_name()},
                      {"pid", ::getpid()},
                      {"machine", machine()},
                      {"started", start_of_process(::getpid()).value_or(-1)},
                      {"claim", claims++}};
  return owner.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Whether the owner was a process of this machine and has ended.
bool is_gone(const std::string& owner) {
  const auto json = Json::parse(owner, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return false;
  const auto here = machine();
  const auto is_number = [&](const char* name) {
    return json.contains(name) && json[name].is_number_integer();
  };
  if (here.empty() || !json.contains("machine") || json["machine"] != here) return false;
  if (!is_number("pid") || !is_number("started") || json["started"] < 0) return false;
  return start_of_process(json["pid"].get<int64_t>()) != json["started"].get<int64_t>();
}

struct FoundClaim {
  std::string owner;
  fs::file_time_type refreshed;
};

fs::file_time_type time_of(const struct stat& info) {
  const auto since_1970 =
      std::chrono::seconds(info.st_mtim.tv_sec) + std::chrono::nanoseconds(info.st_mtim.tv_nsec);
  return std::chrono::file_clock::from_sys(
      std::chrono::sys_time<std::chrono::nanoseconds>(since_1970));
}

/// Opens the file instead of calling stat: a network file system then asks the server, not its
/// cache.
std::optional<FoundClaim> find_claim(const fs::path& file) {
  const Descriptor open = open_file(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat info {};
  if (!open || ::fstat(open.get(), &info) != 0) return std::nullopt;
  std::array<char, 4096> text{};
  size_t length = 0;
  while (length < text.size()) {
    const auto read = [&] { return ::read(open.get(), &text[length], text.size() - length); };
    const ssize_t count = retry_interrupted(read);
    if (count < 0) return std::nullopt;
    if (count == 0) break;
    length += static_cast<size_t>(count);
  }
  return FoundClaim{{text.data(), length}, time_of(info)};
}

/// Whether a power cut left the file with its name but without its bytes. No living owner has such
/// a file: it is written and closed before it gets its name (AtomicFile::commit_if_new), so
/// machines that open it see the owner. On file systems where commit_if_new has a moment with an
/// empty file, or if a server loses acknowledged data, the owner may be alive; then two processes
/// do the same work.
bool is_lost(const std::string& owner) {
  return owner.find_first_not_of('\0') == std::string::npos;
}

/// A time in the future, after the disk's clock was changed, must not block forever: hence abs.
bool is_abandoned(const FoundClaim& claim, const ClaimExpiry& expiry) {
  return is_lost(claim.owner) || is_gone(claim.owner) ||
         std::chrono::abs(expiry.now - claim.refreshed) > expiry.timeout;
}

/// Removes the claim of `owner`. Moves it aside first: if two processes found it abandoned, the
/// second would remove the new claim of the first.
void remove_abandoned(const fs::path& file, const std::string& owner) {
  static std::atomic<int64_t> removed{0};
  const auto aside =
      file.parent_path() / fmt::format(".{}.aside-{}-{}-{}", file.filename().string(), host_name(),
                                       ::getpid(), removed++);
  if (rename_file(file, aside) != 0) {
    if (errno == ENOENT) return;  // another process was first
    fail_write(file, errno);
  }
  const auto moved = find_claim(aside);
  // A newer claim is put back, unless a third one has been made by now.
  if (moved && moved->owner != owner) std::ignore = ::link(aside.c_str(), file.c_str());
  ::unlink(aside.c_str());
}

}  // namespace

fs::file_time_type time_on_disk(const fs::path& folder) {
  make_folders(folder);
  const auto path = folder / fmt::format(".time-{}-{}", host_name(), ::getpid());
  struct stat info {};
  int error = 0;
  {
    const Descriptor file = open_file(path, O_WRONLY | O_CREAT | O_NOFOLLOW);
    const bool told =
        file && ::futimens(file.get(), nullptr) == 0 && ::fstat(file.get(), &info) == 0;
    if (!told) error = errno;
  }
  ::unlink(path.c_str());
  if (error != 0) fail_write(path, error);
  return time_of(info);
}

std::unique_ptr<Claim> Claim::try_take(const fs::path& file, const ClaimExpiry& expiry) {
  if (const auto found = find_claim(file)) {
    if (!is_abandoned(*found, expiry)) return nullptr;
    remove_abandoned(file, found->owner);
  }
  const auto owner = describe_owner();
  AtomicFile claim(file);
  claim.write(std::as_bytes(std::span(owner.data(), owner.size())));
  if (!claim.commit_if_new(Sync::no)) return nullptr;  // a claim need not outlive a power cut
  return std::unique_ptr<Claim>(new Claim(file, owner, expiry.timeout));
}

bool Claim::is_free(const fs::path& file, const ClaimExpiry& expiry) {
  const auto found = find_claim(file);
  return !found || is_abandoned(*found, expiry);
}

Claim::Claim(fs::path file, std::string owner, std::chrono::seconds timeout)
    : file_(std::move(file)), owner_(std::move(owner)), refreshed_(open_file(file_, O_RDONLY)) {
  using std::chrono::milliseconds;
  const auto period =
      std::clamp(milliseconds(timeout) / 10, milliseconds(50), milliseconds(10'000));
  thread_ = std::jthread([this, period](const std::stop_token& stop) { refresh(stop, period); });
}

void Claim::refresh(const std::stop_token& stop, std::chrono::milliseconds period) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    stopped_.wait_for(lock, stop, period, [] { return false; });
    // By descriptor, so that a newer claim of another process is not refreshed.
    if (refreshed_) ::futimens(refreshed_.get(), nullptr);
  }
}

Claim::~Claim() {
  thread_.request_stop();
  thread_.join();
  refreshed_ = Descriptor();  // a network file system keeps a removed file that is open
  if (held()) ::unlink(file_.c_str());
}

bool Claim::held() const {
  const auto found = find_claim(file_);
  return found && found->owner == owner_;
}

}  // namespace nsvq
