#include "nsvq/io/files/line_reader.h"

#include <algorithm>
#include <span>

namespace nsvq {

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
