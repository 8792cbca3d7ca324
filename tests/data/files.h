#pragma once

#include <zlib.h>
#include <zstd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/images/image.h"

namespace nsvq::testing_files {

struct TempFolder : TemporaryFolder {
  std::string text(const std::string& name = "") const { return (path() / name).string(); }
};

inline Image plain_image(int width, int height, uint8_t value) {
  return {width, height, std::vector<uint8_t>(static_cast<size_t>(width) * height * 3, value)};
}

inline std::string png_text(const Image& image) {
  const auto bytes = encode_png(image);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline void write_png(const std::filesystem::path& path, const Image& image) {
  std::filesystem::create_directories(path.parent_path());
  write_file(path, encode_png(image));
}

/// Names of all images of a source.
inline std::vector<std::string> keys_of(const Source& source) {
  std::vector<std::string> keys;
  for (int64_t i = 0; i < source.size(); ++i) keys.push_back(source.key(i));
  return keys;
}

/// Class numbers of all images of a source.
inline std::vector<int64_t> labels_of(const Source& source) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < source.size(); ++i) labels.push_back(source.label(i));
  return labels;
}

using TarFiles = std::vector<std::pair<std::string, std::string>>;  // name, content

/// A plain USTAR archive.
inline std::string make_tar(const TarFiles& files) {
  std::string tar;
  for (const auto& [name, content] : files) {
    char header[512] = {};
    std::snprintf(header, 100, "%s", name.c_str());
    std::snprintf(header + 100, 8, "%07o", 0644);
    std::snprintf(header + 124, 12, "%011o", static_cast<unsigned>(content.size()));
    std::snprintf(header + 136, 12, "%011o", 0);
    header[156] = '0';
    std::memcpy(header + 257, "ustar\00000", 8);
    std::memset(header + 148, ' ', 8);
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<uint8_t>(c);
    std::snprintf(header + 148, 8, "%06o", sum);
    tar.append(header, sizeof header);
    tar += content;
    tar.append((512 - content.size() % 512) % 512, '\0');
  }
  return tar.append(1024, '\0');
}

inline std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);  // 16: gzip
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

}  // namespace nsvq::testing_files
