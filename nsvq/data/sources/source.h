#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "nsvq/io/images/image.h"
#include "nsvq/settings/sources.h"

namespace nsvq {

/// Names the broken images of a source in the log: each once, however many loaders meet it, and
/// only the first few. Thread-safe.
class BrokenLog {
 public:
  static constexpr size_t most_named = 20;

  /// `why` begins with the image's name.
  void report(int64_t image, std::string_view why);

 private:
  std::mutex mutex_;
  std::unordered_set<int64_t> known_;
};

/// How to read a source that cannot seek: its images lie in shards, each of which is read from its
/// beginning on. All methods are thread-safe.
class SequentialShards {
 public:
  /// Called with the next image, encoded; returns false if no more are wanted.
  using Take = std::function<bool(int64_t index, std::vector<std::byte> bytes)>;

  virtual ~SequentialShards() = default;

  /// Index of each shard's first image, then the number of images.
  virtual const std::vector<int64_t>& shard_starts() const = 0;
  /// Hands over the images [first, end) of a shard in order, retrying failures. Returns early when
  /// asked to stop. Throws RunError.
  virtual void read(int64_t shard, int64_t first, int64_t end, const Take& take,
                    const std::stop_token& stop) const = 0;
  /// Throws UserError naming the image if it cannot be decoded.
  virtual Image decode(int64_t index, std::span<const std::byte> bytes) const = 0;
};

/// An indexed collection of images. All methods are thread-safe.
class Source {
 public:
  virtual ~Source() = default;

  virtual int64_t size() const = 0;
  /// The image's name within the source, such as "cats/0001.jpg".
  virtual std::string key(int64_t index) const = 0;
  /// Class number (by sorted folder name), or -1 where there are no classes.
  virtual int64_t label(int64_t index) const = 0;
  /// Class names by number; empty without classes.
  virtual std::vector<std::string> classes() const { return {}; }
  /// Throws UserError naming the image if it cannot be decoded.
  virtual Image load(int64_t index) const = 0;
  /// Not null if images should be read in order: `load` reads all images before the one it returns.
  virtual const SequentialShards* shards() const { return nullptr; }

  /// Loaders report images here that cannot be decoded.
  virtual BrokenLog& broken_log() const { return *broken_log_; }
  /// Sources of the same images share a log.
  void set_broken_log(std::shared_ptr<BrokenLog> log) { broken_log_ = std::move(log); }

 private:
  std::shared_ptr<BrokenLog> broken_log_ = std::make_shared<BrokenLog>();
};

/// Opens images: `builtin:dead-leaves?size=64&count=2048&seed=0`, a folder of JPEG, PNG and WebP
/// files, one image file, or tar shards (`photos-{00..03}.tar`, `photos-*.tar`, several separated
/// by commas; also .tar.gz, .tgz and .tar.zst), an .npz file of images (npz_source.h), or several
/// of these, one after another; or `pipe:COMMAND`, tars that commands write (pipe_source.h). Each
/// may end in `#0.1..0.2`: its images whose names have such hashes (part.h). An image beyond the
/// limits counts as broken. Throws UserError if there are no images, saying which were searched
/// for, and for commands unless sources.pipes_allowed. A command that fails is run again up to
/// `retries` times.
std::unique_ptr<Source> open_source(const Sources& sources, const ImageLimits& limits = {},
                                    int64_t retries = 3);

/// SHA-256 of the names of all images, each followed by a zero byte.
std::string keys_sha256(const Source& source);

/// The first of these images, in rising order, that can be decoded and for which `use` does not
/// throw UserError; nullopt if all are still broken. Throws RunError if the source cannot be read.
std::optional<int64_t> first_readable(const Source& source, const std::vector<int64_t>& images,
                                      const std::function<void(const Image&)>& use = {});

}  // namespace nsvq
