#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/core/sources.h"
#include "nsvq/data/broken_log.h"
#include "nsvq/io/image.h"

namespace nsvq {

/// An indexed collection of images. All methods are thread-safe.
class Source {
 public:
  virtual ~Source() = default;

  virtual int64_t size() const = 0;
  /// Name of an image within the source, such as "cats/0001.jpg".
  virtual std::string key(int64_t index) const = 0;
  /// Class number (by sorted folder name), or -1 where there are no classes.
  virtual int64_t label(int64_t index) const = 0;
  /// Names of the classes, by number; empty where there are none.
  virtual std::vector<std::string> classes() const { return {}; }
  /// Throws UserError naming the image if it cannot be decoded.
  virtual Image load(int64_t index) const = 0;

  /// Where whoever loads images reports those that cannot be decoded.
  virtual BrokenLog& broken_log() const { return *broken_log_; }
  /// To be shared by sources of the same images.
  void set_broken_log(std::shared_ptr<BrokenLog> log) { broken_log_ = std::move(log); }

 private:
  std::shared_ptr<BrokenLog> broken_log_ = std::make_shared<BrokenLog>();
};

/// Opens images: `builtin:dead-leaves?size=64&count=2048&seed=0`, a folder of JPEG, PNG and WebP
/// files, one image file, or tar shards (`photos-{00..03}.tar`, `photos-*.tar`, several separated
/// by commas; also .tar.gz, .tgz and .tar.zst), or several of these, one after another. An image
/// beyond the limits counts as broken. Throws UserError, saying what was looked for, if there are
/// no images.
std::unique_ptr<Source> open_source(const Sources& sources, const ImageLimits& limits = {});

/// SHA-256 of the names of all images, each followed by a zero byte.
std::string keys_sha256(const Source& source);

}  // namespace nsvq
