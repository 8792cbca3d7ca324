#pragma once

#include <string>

namespace nsvq {

class LiveRuns;

/// Serves the page of the runs over HTTP, read-only, until SIGINT, SIGTERM or SIGHUP ends the
/// process with exit code 0. Port 0: any free one. Prints the address. Throws UserError where the
/// port is taken or the address is none of this machine.
void serve_runs(const LiveRuns& runs, const std::string& host, int port);

/// Whether a request with this Host header is meant for a server at `host`. A page elsewhere whose
/// name was pointed at this machine (DNS rebinding) sends its own name: only addresses, localhost
/// and this machine's name pass.
bool is_own_host(const std::string& header, const std::string& host);

}  // namespace nsvq
