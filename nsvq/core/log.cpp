#include "nsvq/core/log.h"

#include "nsvq/core/terminal.h"

namespace nsvq {

void log_line(std::string_view line) { print_line(line); }

}  // namespace nsvq
