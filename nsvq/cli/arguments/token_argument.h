#pragma once

#include <string>

namespace nsvq {

/// Throws UserError for a name that is something else than a folder of `nsvq tokenize`, such as a
/// tar of images, a picture, a run or a model: it says what that is and what to type. Names of
/// which nothing can be told pass; opening them says more.
void require_tokens_named(const std::string& name);

}  // namespace nsvq
