#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "nsvq/settings/sources.h"

namespace nsvq {

/// The images whose names' hashes lie in [from, to), a stretch of the space of hashes, 0 to 1. The
/// hash of a name is its SHA-256 as a binary fraction, of which 64 bits count.
struct Part {
  double from = 0, to = 1;

  bool contains(std::string_view name) const;
  bool overlaps(const Part& other) const { return from < other.to && other.from < to; }
};

/// `SOURCE#PART`: a source and the part that is named behind it, "" if none is. PART is train,
/// tune, test, all or a stretch of hashes such as 0.1..0.2. An existing path is not divided.
struct NamedPart {
  std::string source, part;

  explicit NamedPart(const std::string& text);
};

/// The part of an item of Sources; all images if it names none. Throws UserError if it has a name:
/// only settings say which hashes that is (Split).
Part part_of(const std::string& item);

/// Shares of a source's images that leave training: tune has the lowest hashes, test the next ones.
struct Split {
  double tune = 0, test = 0;

  bool on() const { return tune > 0 || test > 0; }
  /// Throws UserError for an unknown or an empty part.
  Part part(const std::string& name) const;
};

/// Sources whose parts are stretches of hashes in place of names. Items without a part are of part
/// `unnamed`.
Sources with_hashes(Sources sources, const Split& split, const std::string& unnamed = "all");

}  // namespace nsvq
