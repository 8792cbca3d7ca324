#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace nsvq {

/// The runs in a folder and below for a page that follows them: what it shows of each as JSON, made
/// anew when the run's files have changed. A run is named by its path from the folder. Nothing
/// outside the folder is read, also by links. From any thread.
class RunCatalog {
 public:
  /// Throws UserError if there is no such folder.
  explicit RunCatalog(std::filesystem::path folder);

  /// {"runs": [{"name", "version"}, ...], "notes": [...]}: a run with another version has changed;
  /// the notes tell what is not shown.
  std::string list();
  /// The data of a run (page_data.h); nothing if there is no such run.
  std::optional<std::string> run(const std::string& name);
  /// Its codebook (codes_data), or {"no_codes": why}. Loads the newest model.
  std::optional<std::string> codes(const std::string& name);
  /// A picture of its samples/; nothing if there is none or it is not a whole PNG.
  std::optional<std::vector<std::byte>> picture(const std::string& name, int64_t epoch) const;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::mutex making;  // one thread makes the data, the others wait for it
    std::string version, data;
    Clock::time_point made;
    Clock::duration cost{};  // of making it
    std::string codes_version, codes;
  };

  std::vector<std::filesystem::path> found() const;  ///< also by links out of the folder
  std::vector<std::filesystem::path> runs() const;
  std::optional<std::filesystem::path> find(const std::string& name) const;
  std::string name_of(const std::filesystem::path& run) const;
  std::string version_to_serve(const std::filesystem::path& run, const Entry& entry) const;
  std::shared_ptr<Entry> entry_of(const std::string& name);

  std::filesystem::path folder_;
  std::mutex mutex_;  // of the entries' versions and data
  std::map<std::string, std::shared_ptr<Entry>> entries_;
  std::mutex models_;  // one model at a time
};

}  // namespace nsvq
