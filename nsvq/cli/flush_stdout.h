#pragma once

namespace nsvq {

/// Writes what was printed. Throws RunError with the reason where that fails, such as a full disk.
void flush_stdout();

}  // namespace nsvq
