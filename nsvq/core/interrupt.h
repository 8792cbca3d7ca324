#pragma once

#include <cerrno>
#include <exception>
#include <filesystem>
#include <system_error>

namespace nsvq {

/// Whether work that is stopped is saved or discarded.
enum class OnStop { saves, discards };

/// Installs handlers. The first SIGINT, SIGTERM or SIGHUP only makes `interrupted` return true. A
/// second SIGINT (Ctrl-C pressed again) ends the process at once; any other signal that follows
/// changes nothing, since a terminal that closes and a launcher may each send their own. SIGUSR1
/// asks for a checkpoint. A closed pipe (SIGPIPE) is an error of that write alone. A signal that is
/// ignored stays ignored (nohup, jobs in the background). The line that the first signal prints
/// says what becomes of the work.
void catch_interrupts(OnStop on_stop_does = OnStop::saves);

/// Guard: while it lives, the first signal ends the process at once, for work before there is
/// anything to save.
class StopAtOnceGuard {
 public:
  StopAtOnceGuard();
  ~StopAtOnceGuard();
  StopAtOnceGuard(const StopAtOnceGuard&) = delete;
  StopAtOnceGuard& operator=(const StopAtOnceGuard&) = delete;
};

/// Whether the process has been asked to stop since catch_interrupts.
bool interrupted();

/// Whether SIGUSR1 has arrived since catch_interrupts or the last call.
bool checkpoint_requested();

/// Work that was given up because the process was asked to stop. `main` exits with `exit_code`.
class Interrupted : public std::exception {
 public:
  /// 130 for SIGINT, 143 for SIGTERM and SIGHUP, as in shells, so that the next command of a script
  /// (train && eval) does not run.
  int exit_code() const;
  const char* what() const noexcept override { return "interrupted"; }
};

/// Throws Interrupted if the process has been asked to stop: for loops whose work is repeated from
/// the start next time.
void throw_if_interrupted();

/// Makes a system call, and repeats it while a signal interrupts it. Network file systems let
/// signals interrupt calls that never are on a local disk.
template <typename Call>
auto retry_interrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

/// The entries of a folder, which is opened again when a signal interrupts that, as network file
/// systems let signals do.
inline std::filesystem::directory_iterator entries_of(const std::filesystem::path& folder,
                                                      std::error_code& error) {
  std::filesystem::directory_iterator entries(folder, error);
  while (error == std::errc::interrupted) {
    entries = std::filesystem::directory_iterator(folder, error);
  }
  return entries;
}

/// entries_of; throws filesystem_error.
inline std::filesystem::directory_iterator entries_of(const std::filesystem::path& folder) {
  std::error_code error;
  auto entries = entries_of(folder, error);
  if (error) throw std::filesystem::filesystem_error("cannot list", folder, error);
  return entries;
}

}  // namespace nsvq
