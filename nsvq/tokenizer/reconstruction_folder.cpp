#include "nsvq/tokenizer/reconstruction_folder.h"

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"

namespace nsvq {

ReconstructionFolder::ReconstructionFolder(const std::filesystem::path& path, const Source& source,
                                           const ResumableFolder::Settings& settings)
    : source_(source),
      folder_(path, settings),
      pictures_(folder_.done() - std::ssize(folder_.left_out())) {
  take_finished_names(names_, folder_, [this](int64_t i) { return source_.key(i); });
  if (done() > 0) log("going on after the first {} images", done());
}

void ReconstructionFolder::add(int64_t index, std::span<const std::byte> png) {
  folder_.write(names_.name_for(source_.key(index)), png);
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
