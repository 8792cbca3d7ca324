#include "nsvq/io/files/input_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"

namespace nsvq {

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  struct stat info {};
  file_ = open_regular(path_, info);
  size_ = static_cast<uint64_t>(info.st_size);
}

void InputFile::read(uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = retry_interrupted([&] {
      return ::pread(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    });
    if (got < 0) fail_read(path_, errno);
    if (got == 0) throw UserError("cannot read {}: it ends at byte {}", path_.string(), offset);
    offset += static_cast<uint64_t>(got);
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
}

/// Reads the next piece; false at the end of the file.
bool LineReader::fill() {
  constexpr uint64_t kPiece = 1 << 16;
  piece_.resize(std::min(kPiece, file_.size() - offset_));
  file_.read(offset_, std::as_writable_bytes(std::span(piece_)));
  offset_ += piece_.size();
  at_ = 0;
  return !piece_.empty();
}

std::optional<std::string> LineReader::next() {
  if (at_ == piece_.size() && !fill()) return std::nullopt;
  std::string line;
  do {
    const size_t end = std::min(piece_.find('\n', at_), piece_.size());
    line.append(piece_, at_, std::min(end - at_, longest_ - line.size()));
    at_ = end;
    if (at_ < piece_.size()) {
      ++at_;  // the line's end
      break;
    }
  } while (fill());
  return line;
}

}  // namespace nsvq
