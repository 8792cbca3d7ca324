#include "nsvq/io/formats/npz.h"

#include <fmt/ranges.h>
#include <zip.h>

#include <bit>
#include <memory>
#include <span>
#include <string_view>
#include <tuple>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/io/formats/npy.h"
#include "nsvq/io/formats/zip_archive.h"

namespace nsvq {

namespace {

static_assert(std::endian::native == std::endian::little, "arrays are written little-endian");

constexpr uint16_t kFirstDay = 0x21;  // 1 January 1980, the zip format's first date

template <auto free>
struct Freed {
  template <typename T>
  void operator()(T* pointer) const {
    free(pointer);
  }
};
using Archive = std::unique_ptr<zip_t, Freed<zip_discard>>;
using Buffer = std::unique_ptr<zip_source_t, Freed<zip_source_free>>;

constexpr std::string_view kEnding = ".npy";

std::string npy_member(const std::string& name) { return name + std::string(kEnding); }

torch::Tensor read_array(const ZipArchive& archive, const std::string& name) {
  const auto member = npy_member(name);
  if (!archive.contains(member)) {
    throw UserError("no array '{}' (there are: {})", name,
                    quote(fmt::format("{}", fmt::join(archive.names(), ", ")), 200));
  }
  try {
    return parse_npy(archive.read(member));
  } catch (const UserError& error) {
    throw UserError("'{}': {}", name, error.what());
  }
}

std::string npy_file(const torch::Tensor& array) {
  const auto whole = array.detach().cpu().contiguous();
  auto bytes = npy_header(whole);
  return bytes.append(static_cast<const char*>(whole.data_ptr()), whole.nbytes());
}

/// An uncompressed zip file of these members.
std::vector<std::byte> zip_of(const std::map<std::string, std::string>& members) {
  const auto require = [](bool succeeded, const char* message) {
    if (!succeeded) throw RunError("libzip: {}", message);
  };
  zip_error_t error;
  zip_error_init(&error);
  const Buffer buffer(zip_source_buffer_create(nullptr, 0, 0, &error));
  require(buffer != nullptr, zip_error_strerror(&error));
  zip_source_keep(buffer.get());  // read below, after the archive has released it
  Archive archive(zip_open_from_source(buffer.get(), ZIP_TRUNCATE, &error));
  require(archive != nullptr, zip_error_strerror(&error));
  for (const auto& [name, bytes] : members) {
    auto* source = zip_source_buffer(archive.get(), bytes.data(), bytes.size(), 0);
    const auto index = zip_file_add(archive.get(), name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) zip_source_free(source);
    const auto at = static_cast<zip_uint64_t>(index);
    require(index >= 0 && zip_set_file_compression(archive.get(), at, ZIP_CM_STORE, 0) == 0 &&
                zip_file_set_dostime(archive.get(), at, 0, kFirstDay, 0) == 0,
            zip_strerror(archive.get()));
  }
  require(zip_close(archive.get()) == 0, zip_strerror(archive.get()));
  std::ignore = archive.release();  // closing has freed it
  zip_stat_t stat;
  const bool open = zip_source_stat(buffer.get(), &stat) == 0 && zip_source_open(buffer.get()) == 0;
  require(open, "the archive cannot be read back");
  std::vector<std::byte> bytes(stat.size);
  const auto got = zip_source_read(buffer.get(), bytes.data(), bytes.size());
  zip_source_close(buffer.get());
  require(got == std::ssize(bytes), "the archive cannot be read back");
  return bytes;
}

}  // namespace

void write_npz(const std::filesystem::path& path, const TensorMap& arrays) {
  std::map<std::string, std::string> members;
  for (const auto& [name, array] : arrays) members[npy_member(name)] = npy_file(array);
  write_file(path, zip_of(members));
}

std::vector<std::string> npz_names(const std::filesystem::path& path) {
  const InputFile regular(path);
  try {
    auto names = ZipArchive(regular).names();
    std::erase_if(names, [](const std::string& name) { return !name.ends_with(kEnding); });
    for (auto& name : names) name.resize(name.size() - kEnding.size());
    return names;
  } catch (const UserError& error) {
    throw UserError("cannot read {}: {}", path.string(), error.what());
  }
}

TensorMap read_npz(const std::filesystem::path& path, const std::vector<std::string>& names,
                   const std::vector<std::string>& optional) {
  const InputFile regular(path);  // refuses a pipe, for whose writer libzip would wait
  try {
    const ZipArchive archive(regular);
    TensorMap arrays;
    for (const auto& name : names) arrays[name] = read_array(archive, name);
    for (const auto& name : optional) {
      if (archive.contains(npy_member(name))) arrays[name] = read_array(archive, name);
    }
    return arrays;
  } catch (const UserError& error) {
    throw UserError("cannot read {}: {}", path.string(), error.what());
  }
}

}  // namespace nsvq
