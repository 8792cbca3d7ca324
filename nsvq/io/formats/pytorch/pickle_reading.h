#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/io/files/input_file.h"
#include "nsvq/io/formats/pytorch/pickle.h"

namespace nsvq {

inline constexpr uint64_t kMostPickleBytes = uint64_t{1} << 25;  // numbers of tensors lie beside it
inline constexpr uint64_t kMostSmallBytes = 4096;                // of a pickle with some numbers

/// Pickles and numbers that follow each other in a file, from `begin` on. Throws UserError, without
/// the file's name, where it ends before.
class PickleReading {
 public:
  PickleReading(const InputFile& file, uint64_t begin) : file_(file), at_(begin) {}

  uint64_t at() const { return at_; }
  void skip(uint64_t bytes);
  int64_t number();
  std::vector<int64_t> numbers(uint64_t count);
  /// Pickles do not say how long they are: this one at most `most` bytes.
  Pickle pickle(uint64_t most);

 private:
  const InputFile& file_;
  uint64_t at_;
};

/// Where numbers lie in a file, in bytes.
struct Stretch {
  uint64_t begin = 0, size = 0;
};
/// Reads a count and passes over so many numbers of `width` bytes.
Stretch pass_numbers(PickleReading& reading, uint64_t width);
/// Throws UserError for more than `most` bytes, called `name`.
std::vector<std::byte> read_stretch(const InputFile& file, const Stretch& stretch, uint64_t most,
                                    const std::string& name);

}  // namespace nsvq
