#include "nsvq/io/formats/contents_hash.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

#include "nsvq/io/files/sha256.h"
#include "nsvq/io/formats/safetensors_header.h"

namespace nsvq {

namespace {

constexpr auto kContentsHash = "nsvq.contents_sha256";

/// Adds a text and a zero byte, which distinguishes "ab", "c" from "a", "bc".
void add_text(Sha256& hash, const std::string& text) {
  hash.add(std::as_bytes(std::span(text.c_str(), text.size() + 1)));
}

std::string contents_sha256(const TensorFile& file) {
  Sha256 hash;
  for (const auto& [name, tensor] : file.tensors) {
    const char* dtype = safetensors_dtype(tensor.scalar_type());
    add_text(hash, name);
    add_text(hash, dtype ? dtype : "");  // write_safetensors refuses it
    add_text(hash, fmt::format("{}", fmt::join(tensor.sizes().vec(), ",")));
    const auto whole = tensor.detach().cpu().resolve_neg().contiguous();
    hash.add({static_cast<const std::byte*>(whole.data_ptr()), whole.nbytes()});
  }
  for (const auto& [key, value] : file.metadata) {
    if (key == kContentsHash) continue;
    add_text(hash, key);
    add_text(hash, value);
  }
  return hash.hex();
}

}  // namespace

void add_contents_hash(TensorFile& file) { file.metadata[kContentsHash] = contents_sha256(file); }

bool has_contents_hash(const std::map<std::string, std::string>& metadata) {
  return metadata.contains(kContentsHash);
}

bool contents_hash_matches(const TensorFile& file) {
  const auto found = file.metadata.find(kContentsHash);
  return found == file.metadata.end() || found->second == contents_sha256(file);
}

}  // namespace nsvq
