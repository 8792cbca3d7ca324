#include "nsvq/io/formats/npz.h"

#include <zip.h>

#include <bit>
#include <memory>
#include <span>
#include <tuple>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/io/formats/npy.h"

namespace nsvq {

namespace {

static_assert(std::endian::native == std::endian::little, "arrays are written little-endian");

constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // per array; a small file can claim any size
constexpr uint64_t kBestRatio = 1032;               // best compression of deflate
constexpr uint16_t kFirstDay = 0x21;                // 1 January 1980, the zip format's first date

template <auto free>
struct Freed {
  template <typename T>
  void operator()(T* pointer) const {
    free(pointer);
  }
};
using Archive = std::unique_ptr<zip_t, Freed<zip_discard>>;
using Member = std::unique_ptr<zip_file_t, Freed<zip_fclose>>;
using Buffer = std::unique_ptr<zip_source_t, Freed<zip_source_free>>;

UserError damaged(zip_error_t* error) {
  return UserError("the zip file is damaged: {}", zip_error_strerror(error));
}

Archive open_archive(const std::filesystem::path& path) {
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (archive) return archive;
  if (code == ZIP_ER_NOZIP) throw UserError("not a zip file, or a truncated one");
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  throw damaged(&error);
}

std::string names_in(zip_t* archive) {
  std::string names;
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0); ++i) {
    const char* name = zip_get_name(archive, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
    names += (names.empty() ? "" : ", ") + std::string(name ? name : "?");
  }
  return quote(names, 200);
}

/// Refuses sizes that only a damaged or hostile file claims for a member, before allocating memory.
void check_member(const zip_stat_t& member, uint64_t file_bytes) {
  constexpr auto kNeeded =
      ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((member.valid & kNeeded) != kNeeded) throw UserError("the zip file is damaged");
  if (member.size > kMostBytes) {
    throw UserError("an array of {} bytes, more than {}", member.size, kMostBytes);
  }
  if (member.encryption_method != ZIP_EM_NONE) throw UserError("the zip file is encrypted");
  const bool stored = member.comp_method == ZIP_CM_STORE;
  if (!stored && member.comp_method != ZIP_CM_DEFLATE) {
    throw UserError("the zip file is compressed by method {}, which is not supported",
                    member.comp_method);
  }
  const bool fits = member.comp_size <= file_bytes;
  const bool expands =
      stored ? member.size == member.comp_size : member.size / kBestRatio <= member.comp_size;
  if (!fits || !expands) {
    throw UserError("the zip file's sizes do not add up");
  }
}

std::vector<std::byte> read_member(zip_t* archive, uint64_t index, uint64_t file_bytes) {
  zip_stat_t stat;
  if (zip_stat_index(archive, index, 0, &stat) != 0) throw damaged(zip_get_error(archive));
  check_member(stat, file_bytes);
  const Member member(zip_fopen_index(archive, index, 0));
  if (!member) throw damaged(zip_get_error(archive));
  std::vector<std::byte> bytes(stat.size);
  for (size_t filled = 0; filled < bytes.size();) {
    const auto got = zip_fread(member.get(), &bytes[filled], bytes.size() - filled);
    if (got < 0) throw damaged(zip_file_get_error(member.get()));
    if (got == 0) throw UserError("the zip file is damaged: an array is cut off");
    filled += static_cast<size_t>(got);
  }
  // libzip compares the checksum on a read beyond the end.
  std::byte beyond;
  const auto got = zip_fread(member.get(), &beyond, 1);
  if (got < 0) throw damaged(zip_file_get_error(member.get()));
  if (got > 0) throw UserError("the zip file is damaged: an array is longer than it says");
  return bytes;
}

/// Index of a member; negative if there is none.
zip_int64_t find_array(zip_t* archive, const std::string& name) {
  return zip_name_locate(archive, (name + ".npy").c_str(), 0);
}

torch::Tensor read_array(zip_t* archive, const std::string& name, uint64_t file_bytes) {
  const auto index = find_array(archive, name);
  if (index < 0) throw UserError("no array '{}' (there are: {})", name, names_in(archive));
  try {
    return parse_npy(read_member(archive, static_cast<uint64_t>(index), file_bytes));
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
  for (const auto& [name, array] : arrays) members[name + ".npy"] = npy_file(array);
  write_file(path, zip_of(members));
}

TensorMap read_npz(const std::filesystem::path& path, const std::vector<std::string>& names,
                   const std::vector<std::string>& optional) {
  const InputFile regular(path);  // refuses a pipe, for whose writer libzip would wait
  try {
    const auto archive = open_archive(path);
    TensorMap arrays;
    for (const auto& name : names) arrays[name] = read_array(archive.get(), name, regular.size());
    for (const auto& name : optional) {
      if (find_array(archive.get(), name) < 0) continue;
      arrays[name] = read_array(archive.get(), name, regular.size());
    }
    return arrays;
  } catch (const UserError& error) {
    throw UserError("cannot read {}: {}", path.string(), error.what());
  }
}

}  // namespace nsvq
