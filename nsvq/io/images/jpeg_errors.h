#pragma once

#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>  // needs <cstdio> before it

namespace nsvq {

/// libjpeg reports errors by longjmp. It lands only in small functions that call setjmp: their
/// frames hold plain values, so no destructor is skipped.
struct JpegErrorTrap {
  jpeg_error_mgr manager;  // first, so that libjpeg's pointer to it is a pointer to the trap
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

/// Makes libjpeg report errors to `trap` through its `manager`, and treat warnings after which it
/// would invent pixels as errors.
void set_jpeg_trap(JpegErrorTrap& trap);

/// Stores the error's message and jumps.
[[noreturn]] void fail_jpeg(j_common_ptr info);

}  // namespace nsvq
