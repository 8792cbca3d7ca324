#include "nsvq/core/messages.h"

#include "nsvq/core/error.h"

namespace nsvq {

void throw_user_error(const std::string& line) { throw UserError("{}", line); }

}  // namespace nsvq
