#include "nsvq/cli/picture_output.h"

#include "nsvq/core/error.h"
#include "nsvq/io/file.h"
#include "nsvq/io/tar_writer.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

class FolderOutput : public PictureOutput {
 public:
  explicit FolderOutput(fs::path folder) : folder_(std::move(folder)) {}
  void add(const std::string& name, std::span<const std::byte> bytes) override {
    write_file(folder_ / name, bytes);
  }

 private:
  fs::path folder_;
};

class TarOutput : public PictureOutput {
 public:
  explicit TarOutput(const fs::path& path) : writer_(path) {}
  void add(const std::string& name, std::span<const std::byte> bytes) override {
    writer_.add(name, bytes);
  }
  void finish() override { writer_.commit(); }

 private:
  TarWriter writer_;
};

}  // namespace

std::string PictureNames::name_for(const std::string& key) {
  fs::path inside;
  for (const auto& part : fs::path(key).relative_path()) {
    if (part != ".." && part != "." && !part.empty()) inside /= part;
  }
  if (inside.empty()) inside = "image";
  auto name = fs::path(inside).replace_extension(ending_).string();
  if (!taken_.insert(name).second) {
    name = inside.string() + ending_;
    for (int number = 2; !taken_.insert(name).second; ++number) {
      name = fmt::format("{}.{}{}", inside.string(), number, ending_);
    }
  }
  return name;
}

void require_empty_folder(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return;
  if (fs::is_directory(path, error) && fs::is_empty(path, error)) return;
  throw UserError("{}: exists and is not an empty folder; choose another for --out", path.string());
}

std::unique_ptr<PictureOutput> open_picture_output(const fs::path& path) {
  if (path.extension() == ".tar") return std::make_unique<TarOutput>(path);
  require_empty_folder(path);
  return std::make_unique<FolderOutput>(path);
}

}  // namespace nsvq
