#include "nsvq/data/streams/pipe_index.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>

#include "nsvq/core/environment.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/image_names.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/sha256.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/io/formats/piped_tar.h"

namespace nsvq {

namespace {

constexpr auto kFormat = "nsvq-pipe-index";
constexpr int kVersion = 1;

void pause_unless_stopped(std::chrono::milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any never;
  never.wait_for(lock, stop, time, [] { return false; });
}

std::vector<PipedImage> list_once(const std::string& command, const std::stop_token& stop) {
  std::vector<PipedImage> images;
  std::unordered_map<std::string, int64_t> labels;  // by name without ending
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

/// A name as JSON, whose strings are UTF-8: others become lists of their bytes.
nlohmann::json name_to_json(const std::string& name) {
  if (text_prefix(name) == name.size()) return name;
  return std::vector<uint8_t>(name.begin(), name.end());
}

std::string name_from_json(const nlohmann::json& name) {
  if (name.is_string()) return name;
  const auto bytes = name.get<std::vector<uint8_t>>();
  return {bytes.begin(), bytes.end()};
}

/// Checks everything: others may write to the folder of the lists.
std::vector<PipedImage> images_from_json(const nlohmann::json& list, const std::string& command) {
  if (list.at("format") != kFormat || list.at("version") != kVersion ||
      list.at("command") != name_to_json(command)) {
    throw UserError("is no list of this command");
  }
  const auto &names = list.at("names"), &sizes = list.at("bytes"), &labels = list.at("labels");
  if (!names.is_array() || names.size() != sizes.size() || names.size() != labels.size()) {
    throw UserError("has columns of different lengths");
  }
  std::vector<PipedImage> images;
  images.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    images.push_back({name_from_json(names[i]), whole_number(sizes.at(i), "bytes"),
                      whole_number(labels.at(i), "labels", -1)});
    if (!is_image_name(images.back().name)) throw UserError("names a file that is no image");
  }
  return images;
}

}  // namespace

void retry_command(const Retries& retries, const std::stop_token& stop,
                   const std::function<void()>& work) {
  constexpr std::chrono::milliseconds longest{30'000};
  auto pause = retries.first_pause;
  for (int64_t failures = 1;; ++failures) {
    try {
      return work();
    } catch (const CommandFailure& failure) {
      if (stop.stop_requested()) return;
      if (failures > retries.times) throw RunError("{}", failure.what());
      log("{}; running it again ({} of {})", failure.what(), failures, retries.times);
    }
    pause_unless_stopped(pause, stop);
    if (stop.stop_requested()) return;
    pause = std::min(2 * pause, longest);
  }
}

std::vector<PipedImage> list_piped_images(const std::string& command, const Retries& retries,
                                          const std::stop_token& stop) {
  std::vector<PipedImage> images;
  retry_command(retries, stop, [&] { images = list_once(command, stop); });
  return images;
}

std::filesystem::path pipe_index_file(const std::string& command) {
  const auto folder = cache_folder();
  if (folder.empty()) return folder;
  Sha256 hash;
  hash.add(std::as_bytes(std::span(command)));
  return folder / "index" / fmt::format("pipe-{}.json", hash.hex());
}

void tell_ignored_variable() {
  if (!environment_text("NSVQ_INDEX_CACHE")) return;
  log("NSVQ_INDEX_CACHE is not read: lists are kept in {}, which XDG_CACHE_HOME moves",
      (cache_folder() / "index").string());
}

std::optional<std::vector<PipedImage>> load_pipe_index(const std::string& command) {
  const auto file = pipe_index_file(command);
  if (file.empty()) return std::nullopt;
  try {
    return images_from_json(read_json(file), command);
  } catch (const UserError&) {
    return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void save_pipe_index(const std::string& command, const std::vector<PipedImage>& images) {
  const auto file = pipe_index_file(command);
  if (file.empty()) {
    throw RunError("no folder for lists of images: set XDG_CACHE_HOME or HOME");
  }
  auto names = nlohmann::json::array(), sizes = names, labels = names;
  for (const auto& image : images) {
    names.push_back(name_to_json(image.name));
    sizes.push_back(image.bytes);
    labels.push_back(image.label);
  }
  const Json list = {
      {"format", kFormat},         {"version", kVersion},       {"command", name_to_json(command)},
      {"names", std::move(names)}, {"bytes", std::move(sizes)}, {"labels", std::move(labels)}};
  try {
    write_text(file, list.dump() + "\n");
  } catch (const RunError& error) {
    throw RunError("{}; set XDG_CACHE_HOME to a folder for lists of images", error.what());
  }
}

void index_pipes(const std::vector<std::string>& commands, const IndexOptions& options) {
  std::stop_source stop;
  std::mutex mutex;  // guards next, done and failure
  size_t next = 0;
  int64_t done = 0;
  std::exception_ptr failure;
  const auto list_and_save = [&](const std::string& command) {
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
        list_and_save(commands[number]);
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
