#include "nsvq/io/formats/decompress.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/io/files/file.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr size_t kPiece = size_t{1} << 18;

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

bool is_zstd(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && std::memcmp(bytes.data(), "\x28\xb5\x2f\xfd", 4) == 0;
}

/// Reads the compressed file in pieces.
class CompressedInput {
 public:
  CompressedInput(int descriptor, const fs::path& path) : descriptor_(descriptor), path_(path) {}

  /// The next piece, empty at the end.
  std::span<std::byte> next() {
    const ssize_t got = retry_interrupted(
        [&] { return ::pread(descriptor_, piece_.data(), piece_.size(), offset_); });
    if (got < 0) fail_read(path_, errno);
    offset_ += got;
    return std::span(piece_).first(static_cast<size_t>(got));
  }

 private:
  int descriptor_;
  const fs::path& path_;
  std::vector<std::byte> piece_ = std::vector<std::byte>(kPiece);
  off_t offset_ = 0;
};

/// The temporary file, with a limit on its size.
class ExpandedOutput {
 public:
  ExpandedOutput(uint64_t most, const fs::path& path) : most_(most), path_(path) {
    std::error_code ignored;
    folder_ = fs::temp_directory_path(ignored);
    if (folder_.empty()) folder_ = "/tmp";
    file_ = Descriptor(retry_interrupted(
        [&] { return ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); }));
    if (!file_) {  // a file system without nameless files
      std::string name = (folder_ / ".nsvq-shard-XXXXXX").string();
      file_ = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
      if (file_) ::unlink(name.c_str());
    }
    if (!file_) fail(errno);
  }

  void write(std::span<const std::byte> bytes) {
    if (bytes.size() > most_ - written_) {
      throw UserError("{}: expands to more than {} bytes; decompress it to .tar if that is right",
                      path_.string(), most_);
    }
    written_ += bytes.size();
    while (!bytes.empty()) {
      const ssize_t done =
          retry_interrupted([&] { return ::write(file_.get(), bytes.data(), bytes.size()); });
      if (done < 0) fail(errno);
      bytes = bytes.subspan(static_cast<size_t>(done));
    }
  }
  int release() { return file_.release(); }

 private:
  [[noreturn]] void fail(int error) const {
    throw RunError("cannot decompress {} into {}: {}; set TMPDIR to {}, or decompress it to .tar",
                   path_.string(), folder_.string(), std::strerror(error),
                   means_no_room(error) ? "a folder with more room" : "another folder");
  }

  uint64_t most_, written_ = 0;
  const fs::path& path_;
  fs::path folder_;
  Descriptor file_;
};

[[noreturn]] void fail_damaged(const fs::path& path, const char* why) {
  throw UserError("{}: damaged compressed archive ({}); make or download it again", path.string(),
                  why);
}

void expand_gzip(CompressedInput& input, ExpandedOutput& output, const fs::path& path) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) throw RunError("zlib cannot be used");  // 16: gzip
  const std::unique_ptr<z_stream, int (*)(z_stream*)> closer(&stream, inflateEnd);
  std::vector<std::byte> out(kPiece);
  int status = Z_STREAM_END;
  for (auto piece = input.next(); !piece.empty(); piece = input.next()) {
    stream.next_in = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_in = static_cast<uInt>(piece.size());
    do {
      // Parallel compressors write several members; zeros may pad a tape.
      if (status == Z_STREAM_END) {
        while (stream.avail_in > 0 && *stream.next_in == 0) ++stream.next_in, --stream.avail_in;
        if (stream.avail_in == 0) break;
        inflateReset(&stream);
      }
      stream.next_out = reinterpret_cast<Bytef*>(out.data());
      stream.avail_out = static_cast<uInt>(out.size());
      status = inflate(&stream, Z_NO_FLUSH);
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        fail_damaged(path, stream.msg ? stream.msg : "not gzip");
      output.write(std::span(out).first(out.size() - stream.avail_out));
    } while (stream.avail_in > 0 || stream.avail_out == 0);
  }
  if (status != Z_STREAM_END) fail_damaged(path, "it ends early");
}

/// Limit on the window, for which a few bytes of header claim memory: 128 MiB (zstd --long,
/// --ultra) only for archives of more than a megabyte.
int longest_window(uint64_t file_bytes) { return file_bytes < (1 << 20) ? 25 : 27; }

void expand_zstd(CompressedInput& input, ExpandedOutput& output, const fs::path& path,
                 uint64_t file_bytes) {
  const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                        ZSTD_freeDStream);
  if (!stream) throw std::bad_alloc();
  ZSTD_DCtx_setParameter(stream.get(), ZSTD_d_windowLogMax, longest_window(file_bytes));
  std::vector<std::byte> out(kPiece);
  size_t left = 0;  // 0 at the end of a frame
  for (auto piece = input.next(); !piece.empty(); piece = input.next()) {
    ZSTD_inBuffer from{piece.data(), piece.size(), 0};
    bool full = false;
    while (from.pos < from.size || full) {
      ZSTD_outBuffer to{out.data(), out.size(), 0};
      left = ZSTD_decompressStream(stream.get(), &to, &from);
      if (ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge) {
        throw UserError(
            "{}: compressed with too long a window (zstd --long); decompress it to .tar",
            path.string());
      }
      if (ZSTD_isError(left)) fail_damaged(path, ZSTD_getErrorName(left));
      output.write(std::span(out).first(to.pos));
      full = left != 0 && to.pos == to.size;
    }
  }
  if (left != 0) fail_damaged(path, "it ends early");
}

}  // namespace

bool is_compressed(std::span<const std::byte> first_bytes) {
  return is_gzip(first_bytes) || is_zstd(first_bytes);
}

int decompress_to_temporary(int descriptor, const fs::path& path) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) fail_read(path, errno);
  ExpandedOutput output(static_cast<uint64_t>(info.st_size) * kMostExpansion + (64 << 20), path);
  CompressedInput peek(descriptor, path), input(descriptor, path);
  if (is_gzip(peek.next())) {
    expand_gzip(input, output, path);
  } else {
    expand_zstd(input, output, path, static_cast<uint64_t>(info.st_size));
  }
  return output.release();
}

}  // namespace nsvq
