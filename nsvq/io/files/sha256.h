#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;  // from OpenSSL's libcrypto

namespace nsvq {

/// SHA-256 (FIPS 180-4) of bytes that come in pieces, computed by OpenSSL's libcrypto, which uses
/// the processor's SHA instructions where there are any.
class Sha256 {
 public:
  /// Throws RunError where libcrypto cannot provide the hash.
  Sha256();
  void add(std::span<const std::byte> bytes);
  /// The digest of all bytes added so far, 64 lower-case hexadecimal digits. More bytes may be
  /// added afterwards.
  std::string hex() const;

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace nsvq
