#pragma once

#include "nsvq/io/safetensors.h"

namespace nsvq {

/// Adds to a file's metadata a sha256 over all else that it holds (`nsvq.contents_sha256`;
/// docs/runs.md says how it is formed), so that the file can be checked wherever it is moved or
/// copied to.
void seal(TensorFile& file);

/// Whether a file holds what it was sealed with; true where it was not sealed.
bool seal_holds(const TensorFile& file);
bool is_sealed(const std::map<std::string, std::string>& metadata);

}  // namespace nsvq
