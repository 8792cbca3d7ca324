#pragma once

#include <string>

namespace httplib {
class Server;
}

namespace nsvq {

class RunCatalog;

/// Lets a server answer requests for the page of the runs: read-only, by the server's own names, in
/// whole pages. Requests are those of anyone who reaches the server. `runs` outlives it.
void answer_page_requests(httplib::Server& server, RunCatalog& runs, const std::string& host);

/// Whether a request with this Host header is meant for a server at `host`. A page elsewhere whose
/// name was pointed at this machine (DNS rebinding) sends its own name: only addresses, localhost
/// and this machine's name pass.
bool is_own_host(const std::string& header, const std::string& host);

}  // namespace nsvq
