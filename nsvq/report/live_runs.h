#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace nsvq {

/// The runs in a folder and below for a page that follows them (page/live.js). A run is named by
/// its path from the folder; a run with a link out of the folder is not shown. From any thread.
class LiveRuns {
 public:
  /// Throws UserError if there is no such folder.
  explicit LiveRuns(std::filesystem::path folder);

  /// The page as HTML.
  std::string page() const;
  /// {"runs": [{"name", "version"}, ...], "notes": [...]} as JSON: a run with another version has
  /// changed; the notes tell what is not shown.
  std::string list() const;
  /// The data of a run (page_data.h) as JSON; nullopt if there is no such run.
  std::optional<std::string> run(const std::string& name) const;
  /// Its codebook (codes_data), or {"no_codes": why}. Loads the newest model.
  std::optional<std::string> codes(const std::string& name) const;
  /// The PNG of an epoch in its samples/; nullopt if there is none or it is not whole.
  std::optional<std::string> picture(const std::string& name, int64_t epoch) const;

 private:
  std::map<std::string, std::filesystem::path> all() const;
  std::optional<std::filesystem::path> find(const std::string& name) const;

  std::filesystem::path folder_;
};

}  // namespace nsvq
