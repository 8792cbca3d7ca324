#include "tests/quantizers/golden.h"

namespace nsvq {
namespace {

TEST(QuantizerGolden, VqAndNsvqEqualTheReference) { check_golden("quantizers", 8); }

}  // namespace
}  // namespace nsvq
