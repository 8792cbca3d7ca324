#pragma once

#include <cstdint>
#include <string>

namespace nsvq {

/// Remembers the batch size that the command runs with, and what sets it ("--batch-size "), for
/// advice when memory does not suffice; `others` are other settings that save some.
void note_batch_size(const std::string& setting, int64_t size, const std::string& others = "");

/// An out-of-memory error as one line, with the half of that batch size to try.
std::string explain_out_of_memory(const std::string& error);

}  // namespace nsvq
