#pragma once

#include <memory>
#include <string>

#include "nsvq/report/run_catalog.h"

namespace nsvq {

/// The page of a folder's runs over HTTP, read-only, while it lives.
class PageServer {
 public:
  /// Listens at `port` (0: any free one). Throws UserError where the port is taken or the address
  /// is none of this machine.
  PageServer(RunCatalog& runs, const std::string& host, int port);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  std::string address() const;  ///< http://...

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace nsvq
