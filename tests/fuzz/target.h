#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace nsvq {

using Bytes = std::vector<std::byte>;

/// A reader of bytes that come from outside. It throws UserError or RunError for what it refuses;
/// anything else is a defect.
struct FuzzTarget {
  const char* name;
  void (*read)(std::span<const std::byte> bytes);
  /// Valid inputs to begin with, by file name.
  std::map<std::string, Bytes> (*seeds)();
  /// Makes checksums and lengths of mutated bytes right again, so that mutations get past them. May
  /// be null.
  void (*mend)(Bytes& bytes) = nullptr;
};

/// All targets of targets_*.cpp or, in a program that is built in a few minutes
/// (targets_without_models.cpp), the targets that need little of nsvq.
std::vector<FuzzTarget> fuzz_targets();
std::vector<FuzzTarget> reader_targets();
std::vector<FuzzTarget> image_targets();
std::vector<FuzzTarget> archive_targets();
std::vector<FuzzTarget> tensor_targets();
std::vector<FuzzTarget> text_targets();
std::vector<FuzzTarget> index_targets();

/// Whether `target` accepts the bytes; false if it refuses them with a message. All other
/// exceptions propagate.
bool accepts(const FuzzTarget& target, std::span<const std::byte> bytes);

/// Sets the length of a safetensors header to end at the last brace, if it points beyond the file.
void mend_safetensors(Bytes& bytes);
/// Corrects the CRC-32 of stored members of a zip file, in their own headers and in the directory
/// at the end.
void mend_zip(Bytes& bytes);
/// A zip file of stored members.
Bytes zip_of(const std::vector<std::pair<std::string, Bytes>>& members);

Bytes bytes_of(const std::string& text);
std::string text_of(std::span<const std::byte> bytes);

/// A file with given contents that every call overwrites, for readers that want a file's name.
/// `name` is its file name, in a folder of this process.
std::string file_with(std::span<const std::byte> bytes, const std::string& name);
/// What a writer puts into such a file.
Bytes written(const std::string& name, const std::function<void(const std::string& path)>& write);

}  // namespace nsvq
