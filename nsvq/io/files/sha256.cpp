#include "nsvq/io/files/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "nsvq/core/error.h"

namespace nsvq {

namespace {

void require_sha256(bool succeeded) {
  if (!succeeded) throw RunError("libcrypto cannot compute SHA-256");
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  require_sha256(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::add(std::span<const std::byte> bytes) {
  require_sha256(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() const {
  // On a copy, because a context accepts no more bytes once its digest has been computed.
  Sha256 copy;
  require_sha256(EVP_MD_CTX_copy_ex(copy.context_.get(), context_.get()) == 1);
  std::array<unsigned char, 32> digest{};
  require_sha256(EVP_DigestFinal_ex(copy.context_.get(), digest.data(), nullptr) == 1);
  std::string text;
  for (const unsigned byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace nsvq
