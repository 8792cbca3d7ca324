#include "nsvq/io/images/jpeg_errors.h"

#include <jerror.h>

namespace nsvq {

namespace {

/// Treats warnings after which libjpeg would invent pixels as errors. The remaining warnings, such
/// as stray bytes between segments, are harmless.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION:
      fail_jpeg(info);
    default:
      break;
  }
}

}  // namespace

void fail_jpeg(j_common_ptr info) {
  auto* trap = reinterpret_cast<JpegErrorTrap*>(info->err);
  trap->manager.format_message(info, trap->message);
  std::longjmp(trap->jump, 1);
}

void set_jpeg_trap(JpegErrorTrap& trap) {
  jpeg_std_error(&trap.manager);
  trap.manager.error_exit = fail_jpeg;
  trap.manager.emit_message = on_message;
  trap.message[0] = 0;
}

}  // namespace nsvq
