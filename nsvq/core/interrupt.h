#pragma once

namespace nsvq {

/// From here on the first SIGINT or SIGTERM only makes `interrupted` true; a second one ends the
/// process at once, as without this call.
void catch_interrupts();

/// Whether such a signal has come.
bool interrupted();

}  // namespace nsvq
