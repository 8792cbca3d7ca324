#pragma once

namespace nsvq {

/// Installs handlers: the first SIGINT or SIGTERM only makes `interrupted` return true; a second
/// one ends the process at once.
void catch_interrupts();

/// Whether SIGINT or SIGTERM has arrived since catch_interrupts.
bool interrupted();

}  // namespace nsvq
