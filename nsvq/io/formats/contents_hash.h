#pragma once

#include "nsvq/io/formats/safetensors.h"

namespace nsvq {

/// Adds to a file's metadata a sha256 over all else that it holds (`nsvq.contents_sha256`;
/// docs/runs.md says how it is formed), so that the file can be checked wherever it is moved or
/// copied to.
void add_contents_hash(TensorFile& file);

bool has_contents_hash(const std::map<std::string, std::string>& metadata);
/// Whether a file holds what that sha256 was formed of; true where there is none.
bool contents_hash_matches(const TensorFile& file);

}  // namespace nsvq
