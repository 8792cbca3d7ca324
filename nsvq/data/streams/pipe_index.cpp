#include "nsvq/data/streams/pipe_index.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/data/sources/class_number.h"
#include "nsvq/data/sources/image_names.h"
#include "nsvq/io/files/index_cache.h"
#include "nsvq/io/formats/packed.h"
#include "nsvq/io/formats/piped_tar.h"

namespace nsvq {

namespace {

std::vector<PipedImage> list_once(const std::string& command, const std::stop_token& stop) {
  std::vector<PipedImage> images;
  std::unordered_map<std::string, int64_t> labels;  // by names without ending
  visit_piped_tar(command, stop, [&](const TarEntry& entry, const ReadContents& contents) {
    if (is_image_name(entry.name)) images.push_back({entry.name, entry.size, -1});
    if (is_class_number_name(entry.name)) {
      const auto name = shown_command(command) + ": " + entry.name;
      check_class_number_size(entry.size, name);
      labels[std::string(without_ending(entry.name))] = parse_class_number(contents(), name);
    }
    return true;
  });
  for (auto& image : images) {
    const auto found = labels.find(std::string(without_ending(image.name)));
    if (found != labels.end()) image.label = found->second;
  }
  return images;
}

}  // namespace

std::vector<PipedImage> list_piped_images(const std::string& command, const Retries& retries,
                                          const std::stop_token& stop) {
  std::vector<PipedImage> images;
  retry_command(retries, stop, [&] { images = list_once(command, stop); });
  return images;
}

std::optional<std::vector<PipedImage>> load_pipe_index(const std::string& command) {
  const auto bytes = read_index(index_name("pipe", command));
  if (!bytes) return std::nullopt;
  PackedReader in(*bytes);
  if (in.text() != command) return std::nullopt;
  constexpr int64_t least = 24;  // two numbers and the length of a name
  const int64_t count = in.count(least);
  std::vector<PipedImage> images;
  images.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count && in.good(); ++i) {
    PipedImage image;
    image.name = in.text();
    image.bytes = in.number();
    image.label = in.number();
    if (image.bytes < 0 || image.label < -1 || !is_image_name(image.name)) return std::nullopt;
    images.push_back(std::move(image));
  }
  if (!in.complete()) return std::nullopt;
  return images;
}

void save_pipe_index(const std::string& command, const std::vector<PipedImage>& images) {
  PackedWriter out;
  out.text(command);
  out.number(std::ssize(images));
  for (const auto& image : images) {
    out.text(image.name);
    out.number(image.bytes);
    out.number(image.label);
  }
  if (write_index(index_name("pipe", command), out.bytes())) return;
  throw RunError("cannot write to the index cache{}{}; set NSVQ_INDEX_CACHE to a folder",
                 index_cache_folder().empty() ? "" : " ", index_cache_folder().string());
}

void index_pipes(const std::vector<std::string>& commands, const IndexOptions& options) {
  std::stop_source stop;
  std::mutex mutex;  // guards the next three
  size_t next = 0;
  int64_t done = 0;
  std::exception_ptr failure;
  const auto list_and_keep = [&](const std::string& command) {
    if (!options.again && load_pipe_index(command)) return;
    const auto images = list_piped_images(command, options.retries, stop.get_token());
    if (!stop.stop_requested()) save_pipe_index(command, images);
  };
  const auto work = [&] {
    try {
      while (!stop.stop_requested()) {
        size_t number = 0;
        {
          const std::lock_guard lock(mutex);
          if (next == commands.size()) return;
          number = next++;
        }
        list_and_keep(commands[number]);
        const std::lock_guard lock(mutex);
        if (++done; options.on_progress) options.on_progress(done);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      stop.request_stop();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int64_t i = 0; i < std::max<int64_t>(options.jobs, 1); ++i) threads.emplace_back(work);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace nsvq
