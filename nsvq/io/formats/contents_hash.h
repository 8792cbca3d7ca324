#pragma once

#include "nsvq/io/formats/safetensors.h"

namespace nsvq {

/// Adds to a file's metadata a sha256 over everything else in it (`nsvq.contents_sha256`, defined
/// in docs/runs.md), so that the file can be checked after it was moved or copied.
void add_contents_hash(TensorFile& file);

bool has_contents_hash(const std::map<std::string, std::string>& metadata);
/// Whether the file's contents match that sha256; true without one.
bool contents_hash_matches(const TensorFile& file);

}  // namespace nsvq
