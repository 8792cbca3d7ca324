#pragma once

#include "nsvq/generation/generator.h"

namespace nsvq {

GeneratorKind masked_kind();
GeneratorKind ar_kind();
GeneratorKind rar_kind();

/// Throws UserError, naming the key, where heads do not divide the width, or where what each gets
/// is no multiple of `multiple`.
void check_heads(const GeneratorConfig& config, int64_t multiple);

/// Throws UserError for a request with given tokens to a family that cannot fill gaps.
void refuse_given(const TokenRequest& request, const char* family);

}  // namespace nsvq
