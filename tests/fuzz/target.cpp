#include "tests/fuzz/target.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"

namespace nsvq {

namespace {

/// In memory where the system has such a folder: a fuzzer writes it thousands of times a second.
const std::filesystem::path& folder() {
  static const TemporaryFolder folder;
  return folder.path();
}

}  // namespace

std::vector<FuzzTarget> reader_targets() {
  std::vector<FuzzTarget> all;
  for (const auto& some :
       {image_targets(), archive_targets(), tensor_targets(), text_targets(), index_targets()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

bool accepts(const FuzzTarget& target, std::span<const std::byte> bytes) {
  try {
    target.read(bytes);
    return true;
  } catch (const UserError&) {
  } catch (const RunError&) {
  }
  return false;
}

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string file_with(std::span<const std::byte> bytes, const std::string& name) {
  static std::map<std::string, Descriptor> files;  // opened once: that takes longer than a write
  const auto path = folder() / name;
  auto& file = files[name];
  if (!file) file = open_file(path, O_RDWR | O_CREAT);
  const auto size = static_cast<ssize_t>(bytes.size());
  if (::pwrite(file.get(), bytes.data(), bytes.size(), 0) != size ||
      ::ftruncate(file.get(), size) != 0) {
    throw std::runtime_error("cannot write " + path.string());
  }
  return path.string();
}

Bytes written(const std::string& name, const std::function<void(const std::string& path)>& write) {
  const auto path = (folder() / ("seed-" + name)).string();
  write(path);
  return read_file(path);
}

}  // namespace nsvq
