#pragma once

#include <cstdint>

namespace nsvq {

/// Ends the connections of this process at a port of its own.
void end_connections(int port);

/// Ends those over which more than so many bytes have come.
void end_long_connections(int port, uint64_t most_bytes);

}  // namespace nsvq
