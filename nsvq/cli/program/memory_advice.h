#pragma once

#include <cstdint>
#include <string>

namespace nsvq {

/// Remembers the command's batch size and what sets it ("--batch-size "), for advice when memory
/// runs out; `others` are more settings that save some.
void note_batch_size(const std::string& setting, int64_t size, const std::string& others = "");

/// An out-of-memory error in one line, which advises half of that batch size.
std::string explain_out_of_memory(const std::string& error);

}  // namespace nsvq
