#include "nsvq/tokenizer/picture_output.h"

#include <fmt/format.h>

#include <climits>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/core/threads/parallel.h"
#include "nsvq/data/images/grid.h"
#include "nsvq/data/sources/image_names.h"
#include "nsvq/io/files/resumable_folder.h"
#include "nsvq/io/formats/tar_writer.h"
#include "nsvq/io/images/codecs.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

class FolderOutput : public PictureOutput {
 public:
  FolderOutput(const fs::path& path, const ResumableFolder::Settings& settings)
      : folder_(path, settings) {}
  int64_t done() const override { return folder_.done(); }
  void require_done(int64_t images,
                    const std::function<std::string(int64_t)>& name_of) const override {
    folder_.require_done({.positions = images}, name_of);
  }
  void add(const std::string& name, std::span<const std::byte> bytes) override {
    folder_.write(name, bytes);
  }
  void advance(int64_t done) override { folder_.advance(done); }
  void finish() override { folder_.finish(); }

 private:
  ResumableFolder folder_;
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

torch::Tensor as_rounded(const torch::Tensor& images, const ModelConfig& model) {
  return model.rounding == "down" ? from_bytes(to_bytes_below(images)) : images;
}

std::vector<std::vector<std::byte>> encode_pictures(const torch::Tensor& images,
                                                    std::string_view ending) {
  std::vector<Image> pictures;
  for (const auto& image : images.unbind()) pictures.push_back(to_image(image));
  std::vector<std::vector<std::byte>> files(pictures.size());
  parallel_tasks(std::ssize(pictures), [&](int64_t i) {
    files[i] = ending == ".jpg" ? encode_jpeg(pictures[i], 95) : encode_png(pictures[i]);
  });
  return files;
}

bool names_tar(const fs::path& path) { return plain_ending(path.string()) == ".tar"; }

std::unique_ptr<PictureOutput> open_picture_output(const fs::path& path,
                                                   const ResumableFolder::Settings& settings) {
  if (names_tar(path)) return std::make_unique<TarOutput>(path);
  return std::make_unique<FolderOutput>(path, settings);
}

namespace {

fs::path inside_folder(const std::string& key) {
  fs::path inside;
  for (const auto& part : fs::path(key).relative_path()) {
    if (part != ".." && part != "." && !part.empty()) inside /= part;
  }
  return inside.empty() ? fs::path("image") : inside;
}

}  // namespace

std::vector<std::string> picture_names(const std::vector<std::string>& keys,
                                       const std::string& ending) {
  std::vector<std::string> names;
  names.reserve(keys.size());
  std::unordered_set<std::string> taken;
  std::unordered_map<std::string, int64_t> next_numbers;  // of keys that occur again and again
  for (const auto& key : keys) {
    const auto inside = inside_folder(key);
    auto name = fs::path(inside).replace_extension(ending).string();
    if (taken.contains(name)) name = inside.string() + ending;
    if (taken.contains(name)) {
      int64_t& number = next_numbers.try_emplace(inside.string(), 2).first->second;
      do {
        name = fmt::format("{}.{}{}", inside.string(), number++, ending);
      } while (taken.contains(name));
    }
    taken.insert(name);
    names.push_back(std::move(name));
  }
  return names;
}

void require_folder_names(const std::vector<std::string>& names, const fs::path& folder,
                          const std::string& advice) {
  const auto fail = [&](const std::string& name, const std::string& why) {
    throw UserError("{}: cannot hold a picture named {}: {}; {}", folder.string(), quote(name, 100),
                    why, advice);
  };
  std::error_code ignored;
  const size_t before = fs::absolute(folder, ignored).string().size() + 1;
  const std::unordered_set<std::string_view> files(names.begin(), names.end());
  for (const auto& name : names) {
    if (before + name.size() >= PATH_MAX) fail(name, "the path is too long");
    if (name.find('\0') != std::string::npos) fail(name, "it has a zero byte");
    if (is_record_name(name.substr(0, name.find('/')))) {
      fail(name, "the record of the incomplete folder has that name");
    }
    size_t begin = 0;
    for (size_t end = name.find('/'); begin <= name.size(); end = name.find('/', begin)) {
      const size_t stop = std::min(end, name.size());
      if (stop - begin > NAME_MAX) fail(name, "the name is too long");
      if (stop < name.size() && files.contains(std::string_view(name).substr(0, stop)))
        fail(name, fmt::format("{} is a picture too", quote(name.substr(0, stop))));
      begin = stop + 1;
    }
  }
}

}  // namespace nsvq
