#pragma once

#include <cerrno>

#include "nsvq/core/error.h"

namespace nsvq {

/// A file that cannot be written because the disk or the user's share of it is full.
struct NoRoom : RunError {
  using RunError::RunError;
};

/// Whether an errno says so.
inline bool means_no_room(int error) { return error == ENOSPC || error == EDQUOT; }

}  // namespace nsvq
