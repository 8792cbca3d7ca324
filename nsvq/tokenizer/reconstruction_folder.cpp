#include "nsvq/tokenizer/reconstruction_folder.h"

#include "nsvq/core/count_of.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/data/first_readable.h"
#include "nsvq/tokenizer/picture_names.h"

namespace nsvq {

namespace {

std::vector<std::string> names_for(const Source& source, const std::filesystem::path& folder) {
  std::vector<std::string> keys;
  for (int64_t i = 0; i < source.size(); ++i) keys.push_back(source.key(i));
  auto names = picture_names(keys, ".png");
  require_folder_names(names, folder, "name FILE.png for --out, one picture of all");
  return names;
}

}  // namespace

ReconstructionFolder::ReconstructionFolder(const std::filesystem::path& path, const Source& source,
                                           const ResumableFolder::Settings& settings, int64_t batch,
                                           int64_t pictures,
                                           const std::function<void(const Image&)>& use)
    : names_(names_for(source, path)), folder_(path, settings) {
  folder_.require_done(
      {.positions = source.size(), .step = batch, .files = pictures, .leaves_out = true},
      [this](int64_t position) { return names_.at(position); });
  if (const auto image = first_readable(source, folder_.left_out(), use)) {
    folder_.go_back(*image / batch * batch, source.key(*image));
  }
  pictures_ = done() - std::ssize(folder_.left_out());
  if (done() > 0 && !folder_.complete())
    log("going on after the first {}", count_of(done(), "image"));
}

void ReconstructionFolder::add(int64_t index, std::span<const std::byte> png) {
  folder_.write(names_.at(index), png);
  ++pictures_;
}

void ReconstructionFolder::advance(int64_t end, const std::vector<int64_t>& indices) {
  std::vector<int64_t> left_out;
  auto next = indices.begin();
  for (int64_t i = done(); i < end; ++i) {
    if (next != indices.end() && *next == i) {
      ++next;
    } else {
      left_out.push_back(i);
    }
  }
  folder_.advance(end, left_out);
}

void ReconstructionFolder::finish() {
  if (pictures_ == 0) throw UserError("reconstruct: no usable image in the source");
  folder_.finish();
}

}  // namespace nsvq
