#include "nsvq/cli/arguments/memory_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "nsvq/core/device.h"
#include "nsvq/quantizers/members.h"

namespace nsvq {

namespace {

struct Notes {
  NotedTable table;
  std::string networks;  ///< settings of networks that are being made
  std::string batch_setting, batch_others;
  int64_t batch_size = 0;
};

/// Global, since a process runs one command.
Notes& notes() {
  static Notes noted;
  return noted;
}

double gib_of(const NotedTable& table) {
  return static_cast<double>(table.rows) * static_cast<double>(table.columns) * 4 / (1 << 30);
}

std::string with_commas(int64_t number) {
  auto digits = std::to_string(number);
  for (auto at = std::ssize(digits) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

/// "the codebook of 16,777,216 x 512 takes 32 GiB".
std::string size_text(const NotedTable& table) {
  return fmt::format("{} of {} x {} takes {:.3g} GiB", table.name, with_commas(table.rows),
                     table.columns, gib_of(table));
}

/// Whether a tensor of this size is the table, or one of the same size that belongs to it. A GPU's
/// allocator rounds up to 2 MiB, and its message to two decimals.
bool is_of_table(double gib, const NotedTable& table) {
  const double size = gib_of(table), rounding = 2.0 / 1024 + 0.005;
  return size > rounding && std::abs(gib - size) <= rounding;
}

std::string batch_advice(const Notes& noted) {
  std::string text;
  if (noted.batch_size > 1) {
    text =
        fmt::format("{}{}, half of the present batch", noted.batch_setting, noted.batch_size / 2);
  }
  if (!noted.batch_others.empty()) text += (text.empty() ? "" : ", or ") + noted.batch_others;
  return text;
}

}  // namespace

void note_table(NotedTable table) { notes().table = std::move(table); }

void note_table_of(const QuantizerConfig& config, int64_t latent_dim) {
  const auto& kind = quantizer_kind(config.type);
  if (!kind.tokens || !kind.codes_are.empty()) return;
  if (config.type == "vqgan_lc") {
    const auto dim = config.of<FeaturesConfig>().dim;
    return note_table({"the table of features", config.codes, dim, "quantizer.codes"});
  }
  note_table({"the codebook", config.codes, latent_dim, "quantizer.codes or model.latent_dim"});
}

void note_networks(const std::string& settings) {
  notes().networks = settings;
  notes().batch_size = 0;
}

void note_batch_size(const std::string& setting, int64_t size, const std::string& others) {
  auto& noted = notes();
  noted.networks.clear();
  noted.batch_setting = setting;
  noted.batch_size = size;
  noted.batch_others = others;
}

std::string explain_out_of_memory(const std::string& error) {
  const auto& noted = notes();
  const auto& table = noted.table;
  const auto memory = read_out_of_memory(error);
  const std::string what = memory.gpu ? "out of memory on the GPU" : "out of memory";
  if (memory.asked && is_of_table(*memory.asked, table)) {
    return fmt::format("{}: {}; lower {} (training keeps several tensors of this size)", what,
                       size_text(table), table.settings);
  }
  auto text = describe_out_of_memory(error);
  if (!noted.networks.empty()) {
    return fmt::format("{} while the networks, their averages and optimizers are made; lower {}",
                       text, noted.networks);
  }
  const auto advice = batch_advice(noted);
  // With the tensors that belong to it, it has most of the memory then.
  const double used = memory.used.value_or(peak_memory(at::kCPU));
  if (table.rows > 0 && gib_of(table) > used / 8) {
    return fmt::format("{}; {}, and training keeps several tensors of this size: lower {}{}", text,
                       size_text(table), table.settings,
                       advice.empty() ? "" : ", or try " + advice);
  }
  return text +
         (advice.empty() ? "; smaller images or a smaller model may fit" : "; try " + advice);
}

}  // namespace nsvq
