#include "nsvq/io/formats/zip_archive.h"

#include <zip.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

#include "nsvq/core/error.h"

namespace nsvq {

namespace {

constexpr uint64_t kBestRatio = 1032;  // best compression of deflate

struct CloseMember {
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};
using Member = std::unique_ptr<zip_file_t, CloseMember>;

UserError damaged(zip_error_t* error) {
  return UserError("the zip file is damaged: {}", zip_error_strerror(error));
}

/// Refuses sizes that only a damaged or hostile file claims for a member.
void check_member(const zip_stat_t& member, uint64_t file_bytes) {
  constexpr auto kNeeded =
      ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((member.valid & kNeeded) != kNeeded) throw UserError("the zip file is damaged");
  if (member.encryption_method != ZIP_EM_NONE) throw UserError("the zip file is encrypted");
  const bool stored = member.comp_method == ZIP_CM_STORE;
  if (!stored && member.comp_method != ZIP_CM_DEFLATE) {
    throw UserError("the zip file is compressed by method {}, which is not supported",
                    member.comp_method);
  }
  const bool fits = member.comp_size <= file_bytes;
  const bool expands =
      stored ? member.size == member.comp_size : member.size / kBestRatio <= member.comp_size;
  if (!fits || !expands) throw UserError("the zip file's sizes do not add up");
}

/// A member's index and sizes.
std::pair<zip_uint64_t, zip_stat_t> find_member(zip_t* archive, const std::string& name,
                                                uint64_t file_bytes) {
  const auto found = zip_name_locate(archive, name.c_str(), 0);
  if (found < 0) throw UserError("the zip file has no member '{}'", name);
  const auto index = static_cast<zip_uint64_t>(found);
  zip_stat_t stat;
  if (zip_stat_index(archive, index, 0, &stat) != 0) throw damaged(zip_get_error(archive));
  check_member(stat, file_bytes);
  return {index, stat};
}

}  // namespace

bool is_zip_file(const std::filesystem::path& path) {
  constexpr std::string_view kStart = "PK\x03\x04";
  const InputFile file(path);
  std::array<char, kStart.size()> start{};
  if (file.size() < start.size()) return false;
  file.read(0, std::as_writable_bytes(std::span(start)));
  return std::string_view(start.data(), start.size()) == kStart;
}

void ZipArchive::Discard::operator()(zip* archive) const { zip_discard(archive); }

ZipArchive::ZipArchive(const InputFile& file) : bytes_(file.size()) {
  int code = 0;
  archive_.reset(zip_open(file.path().c_str(), ZIP_RDONLY, &code));
  if (archive_) return;
  if (code == ZIP_ER_NOZIP) throw UserError("not a zip file, or a truncated one");
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  throw damaged(&error);
}

std::vector<std::string> ZipArchive::names() const {
  std::vector<std::string> names;
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive_.get(), 0); ++i) {
    const char* name = zip_get_name(archive_.get(), static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
    names.emplace_back(name ? name : "?");
  }
  return names;
}

bool ZipArchive::contains(const std::string& name) const {
  return zip_name_locate(archive_.get(), name.c_str(), 0) >= 0;
}

std::vector<std::byte> ZipArchive::read(const std::string& name, uint64_t most) const {
  const auto [index, stat] = find_member(archive_.get(), name, bytes_);
  if (stat.size > most) {  // before allocating memory
    throw UserError("'{}' has {} bytes, more than {}", name, stat.size, most);
  }
  const Member member(zip_fopen_index(archive_.get(), index, 0));
  if (!member) throw damaged(zip_get_error(archive_.get()));
  std::vector<std::byte> bytes(stat.size);
  for (size_t filled = 0; filled < bytes.size();) {
    const auto got = zip_fread(member.get(), &bytes[filled], bytes.size() - filled);
    if (got < 0) throw damaged(zip_file_get_error(member.get()));
    if (got == 0) throw UserError("the zip file is damaged: a member is cut off");
    filled += static_cast<size_t>(got);
  }
  // libzip compares the checksum on a read beyond the end.
  std::byte beyond;
  const auto got = zip_fread(member.get(), &beyond, 1);
  if (got < 0) throw damaged(zip_file_get_error(member.get()));
  if (got > 0) throw UserError("the zip file is damaged: a member is longer than it says");
  return bytes;
}

void StoredMember::Close::operator()(zip_file* member) const { zip_fclose(member); }

StoredMember::StoredMember(ZipArchive archive, const std::string& name)
    : archive_(std::move(archive)) {
  const auto [index, stat] = find_member(archive_.archive_.get(), name, archive_.bytes_);
  if (stat.comp_method != ZIP_CM_STORE) {
    throw UserError("'{}' is compressed, and its parts cannot be reached; write it uncompressed",
                    name);
  }
  member_.reset(zip_fopen_index(archive_.archive_.get(), index, 0));
  if (!member_) throw damaged(zip_get_error(archive_.archive_.get()));
  size_ = stat.size;
}

void StoredMember::read(uint64_t offset, std::span<std::byte> bytes) const {
  const std::lock_guard lock(mutex_);
  if (offset > size_ || bytes.size() > size_ - offset) {
    throw UserError("the zip file is damaged: a member is cut off");
  }
  if (zip_fseek(member_.get(), static_cast<zip_int64_t>(offset), SEEK_SET) != 0) {
    throw damaged(zip_file_get_error(member_.get()));
  }
  for (size_t filled = 0; filled < bytes.size();) {
    const auto got = zip_fread(member_.get(), &bytes[filled], bytes.size() - filled);
    if (got < 0) throw damaged(zip_file_get_error(member_.get()));
    if (got == 0) throw UserError("the zip file is damaged: a member is cut off");
    filled += static_cast<size_t>(got);
  }
}

}  // namespace nsvq
