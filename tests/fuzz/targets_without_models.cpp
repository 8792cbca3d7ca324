#include "tests/fuzz/target.h"

namespace nsvq {

std::vector<FuzzTarget> fuzz_targets() { return reader_targets(); }

}  // namespace nsvq
