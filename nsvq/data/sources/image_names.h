#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// The endings of images that are read, for messages.
inline constexpr auto kImageEndings = ".jpg, .jpeg, .png or .webp";
inline constexpr auto kShardEndings = ".tar, .tar.gz, .tgz or .tar.zst";

/// Whether the name has such an ending, in upper or lower case, and is not hidden.
bool is_image_name(std::string_view name);
/// Whether the name has the ending of a tar shard and is not hidden.
bool is_shard_name(std::string_view name);

/// The ending of a file's name in lower case, with its dot; empty if there is none or if it has
/// characters besides letters and digits.
std::string plain_ending(std::string_view name);

/// "HEIC" or "AVIF", formats that are not read, by the name's ending; empty for all other names.
std::string unread_format(std::string_view name);

/// Counts, by ending, the files that are no images to read.
class PassedOver {
 public:
  void add(std::string_view name);
  /// "3 .gif, 1 .txt", the most frequent first; empty if there are none.
  std::string text() const;
  /// How to convert HEIC and AVIF images among them; empty if there are none.
  std::string advice() const;

 private:
  std::map<std::string, int64_t> endings_;
  std::string format_;  ///< unread_format of the first such image
};

/// Classes by top folders of keys.
struct FolderClasses {
  std::vector<std::string> names;  ///< top folders, sorted
  std::vector<int64_t> labels;     ///< per key: index of its folder; -1 without a folder
};
FolderClasses folder_classes(const std::vector<std::string>& keys);

// Entries of tar archives. In WebDataset an entry `a/b.cls` contains the class number of `a/b.jpg`.

/// A name without the "./" that `tar c .` puts before it.
std::string plain_name(std::string_view name);
/// A name without its ending, by which images and class numbers are matched.
std::string_view without_ending(std::string_view name);

bool is_class_number_name(std::string_view name);
/// Throws UserError if an entry of so many bytes is too long for a number and blanks.
void check_class_number_size(int64_t size, const std::string& name);
/// The number that a .cls entry contains. Throws UserError calling it `name`.
int64_t parse_class_number(std::span<const std::byte> contents, const std::string& name);

}  // namespace nsvq
