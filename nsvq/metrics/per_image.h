#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "nsvq/data/sources/source.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/metrics/metric_set.h"

namespace nsvq {

/// A CSV file with a line for each image: its key and the chosen figures that single images have.
class PerImageFile {
 public:
  /// Throws UserError where no chosen metric is one of single images, and for missing weights;
  /// RunError where the file cannot be written.
  PerImageFile(const std::filesystem::path& path, const Source& source, const MetricChoice& choice,
               c10::Device device);

  /// A batch, and the indices of its images in the source.
  void add(const EvalBatch& batch, const std::vector<int64_t>& indices);
  /// Makes the file appear under its name.
  void finish() { file_.commit(); }

 private:
  void write_line(const std::vector<std::string>& fields);

  const Source& source_;
  std::vector<std::string> names_;
  MetricSet metrics_;
  AtomicFile file_;
};

}  // namespace nsvq
