#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace nsvq {

/// A .npy file; `descr` is numpy's name of a type, such as |u1.
inline std::string npy_text(const std::string& descr, const std::vector<int64_t>& shape,
                            const std::string& numbers) {
  auto dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                          fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  dict.append(118 - dict.size() - 1, ' ');
  std::string text = "\x93NUMPY";
  text += {1, 0, 118, 0};
  return text + dict + "\n" + numbers;
}

/// A zip file of these members.
inline std::string zip_text(const std::vector<std::pair<std::string, std::string>>& members,
                            bool compressed = false) {
  const auto number = [](uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i & 255);
    return text;
  };
  const auto deflated = [](const std::string& text) {
    std::string out(text.size() + 1000, '\0');
    z_stream stream{};
    deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
  };
  std::string zip, directory;
  for (const auto& [name, text] : members) {
    const auto crc =
        crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size()));
    const auto data = compressed ? deflated(text) : text;
    const auto shared = number(20, 2) + number(0, 2) + number(compressed ? 8 : 0, 2) +
                        number(0, 2) + number(33, 2) + number(crc, 4) + number(data.size(), 4) +
                        number(text.size(), 4) + number(name.size(), 2) + number(0, 2);
    directory += "PK\x01\x02" + number(20, 2) + shared + number(0, 2) + number(0, 2) +
                 number(0, 2) + number(0, 4) + number(zip.size(), 4) + name;
    zip += "PK\x03\x04" + shared + name + data;
  }
  const auto start = zip.size();
  zip += directory;
  return zip + "PK\x05\x06" + number(0, 2) + number(0, 2) + number(members.size(), 2) +
         number(members.size(), 2) + number(directory.size(), 4) + number(start, 4) + number(0, 2);
}

/// Images as generators' samples are exchanged: pixels [count, height, width, 3], and classes.
inline std::string npz_images(int64_t count, int64_t height, int64_t width,
                              const std::string& pixels, const std::vector<int64_t>& classes = {}) {
  std::vector<std::pair<std::string, std::string>> members = {
      {"arr_0.npy", npy_text("|u1", {count, height, width, 3}, pixels)}};
  if (!classes.empty()) {
    const std::string labels(reinterpret_cast<const char*>(classes.data()),
                             classes.size() * sizeof(int64_t));
    members.emplace_back("arr_1.npy",
                         npy_text("<i8", {static_cast<int64_t>(classes.size())}, labels));
  }
  return zip_text(members);
}

}  // namespace nsvq
