#include "nsvq/core/environment.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"

namespace nsvq {

std::optional<std::string> environment_text(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

std::optional<int64_t> environment_number(const char* name, int64_t least, int64_t most,
                                          std::string_view advice) {
  const auto text = environment_text(name);
  if (!text) return std::nullopt;
  const auto number = parse_decimal(*text);
  if (number && *number >= least && *number <= most) return number;
  throw UserError("{} is {}, not a number from {} to {}; {}", name, quote(*text), least, most,
                  advice);
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace nsvq
