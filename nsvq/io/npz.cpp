#include "nsvq/io/npz.h"

#include <algorithm>
#include <bit>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/npy.h"
#include "nsvq/io/zip.h"

namespace nsvq {

namespace {

static_assert(std::endian::native == std::endian::little, "arrays are written little-endian");

constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // of an array; a small file can claim any size

torch::Tensor read_array(const InputFile& file, const std::vector<ZipEntry>& entries,
                         const std::string& name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const auto& entry) { return entry.name == name + ".npy"; });
  if (found == entries.end()) {
    std::string names;
    for (const auto& entry : entries) names += (names.empty() ? "" : ", ") + entry.name;
    throw UserError("no array '{}' (there are: {})", name, quote(names, 200));
  }
  if (found->size > kMostBytes) {
    throw UserError("'{}': an array of {} bytes, more than {}", name, found->size, kMostBytes);
  }
  try {
    return parse_npy(read_zip_entry(file, *found));
  } catch (const UserError& error) {
    throw UserError("'{}': {}", name, error.what());
  }
}

}  // namespace

void write_npz(const std::filesystem::path& path,
               const std::map<std::string, torch::Tensor>& arrays) {
  ZipWriter zip(path);
  for (const auto& [name, array] : arrays) {
    const auto whole = array.detach().cpu().contiguous();
    const auto header = npy_header(whole);
    const auto* numbers = static_cast<const std::byte*>(whole.data_ptr());
    zip.add(name + ".npy", {std::as_bytes(std::span(header)), {numbers, whole.nbytes()}});
  }
  zip.commit();
}

std::map<std::string, torch::Tensor> read_npz(const std::filesystem::path& path,
                                              const std::vector<std::string>& names) {
  const InputFile file(path);
  try {
    const auto entries = list_zip(file);
    std::map<std::string, torch::Tensor> arrays;
    for (const auto& name : names) arrays[name] = read_array(file, entries, name);
    return arrays;
  } catch (const UserError& error) {
    throw UserError("cannot read {}: {}", path.string(), error.what());
  }
}

}  // namespace nsvq
