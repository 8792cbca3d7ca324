#include "nsvq/tokenizer/picture_output.h"

#include "nsvq/core/parallel.h"
#include "nsvq/data/images/grid.h"
#include "nsvq/data/sources/image_names.h"
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

}  // namespace nsvq
