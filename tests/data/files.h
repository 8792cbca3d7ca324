#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/file.h"
#include "nsvq/io/image.h"

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

}  // namespace nsvq::testing_files
