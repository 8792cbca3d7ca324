#include "nsvq/metrics/per_image.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

#include "nsvq/core/error.h"

namespace nsvq {

namespace {

std::vector<std::string> per_image_names(const MetricChoice& choice) {
  std::vector<std::string> names;
  for (const auto& name : choice.names) {
    if (metric_kind(name).per_image) names.push_back(name);
  }
  if (names.empty()) {
    throw UserError(
        "--per-image: none of {} is a figure of single images; add psnr, ssim or lpips "
        "to --metrics",
        fmt::join(choice.names, ", "));
  }
  return names;
}

MetricOptions per_image_options(const MetricChoice& choice, c10::Device device) {
  MetricOptions options{.conventions = choice.conventions, .codes = 0, .device = device};
  options.conventions.group = 1;
  return options;
}

/// A field of a CSV line (RFC 4180): in quotes where it holds a comma, a quote or a line end.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += c;
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

PerImageFile::PerImageFile(const std::filesystem::path& path, const Source& source,
                           const MetricChoice& choice, c10::Device device)
    : source_(source),
      names_(per_image_names(choice)),
      metrics_(names_, per_image_options(choice, device)),
      file_(path) {
  auto titles = names_;
  titles.insert(titles.begin(), "key");
  write_line(titles);
}

void PerImageFile::add(const EvalBatch& batch, const std::vector<int64_t>& indices) {
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    metrics_.reset();
    metrics_.add({batch.images.narrow(0, at, 1), batch.reconstructions.narrow(0, at, 1), {}});
    const auto values = metrics_.values();
    std::vector<std::string> fields = {csv_field(source_.key(indices[i]))};
    for (const auto& name : names_) fields.push_back(fmt::format("{:.6g}", values.at(name)));
    write_line(fields);
  }
}

void PerImageFile::write_line(const std::vector<std::string>& fields) {
  const auto line = fmt::format("{}\n", fmt::join(fields, ","));
  file_.write(std::as_bytes(std::span(line)));
}

}  // namespace nsvq
