#include "bench/bench_table.h"

#include <c10/util/Exception.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "nsvq/cli/output/stdout.h"
#include "nsvq/core/error.h"
#include "nsvq/io/formats/json.h"

namespace nsvq {

namespace {

std::string milliseconds(const std::optional<Taken>& taken) {
  if (!taken) return "out of memory";
  return fmt::format(fmt::runtime(taken->milliseconds < 10 ? "{:.3f}" : "{:.1f}"),
                     taken->milliseconds);
}

std::string gibibytes(const std::optional<Taken>& taken) {
  if (!taken || !taken->peak_bytes) return "-";
  return fmt::format("{:.3f}", static_cast<double>(*taken->peak_bytes) / (1 << 30));
}

Json as_json(const std::optional<Taken>& taken) {
  if (!taken) return nullptr;
  Json json = {{"milliseconds", taken->milliseconds}};
  if (taken->peak_bytes) json["peak_bytes"] = *taken->peak_bytes;
  return json;
}

std::string per_second(double rate, const std::string& unit) {
  const bool tera = rate >= 1e13;
  return fmt::format("{:.4g} {}{}/s", rate / (tera ? 1e12 : 1e9), tera ? 'T' : 'G', unit);
}

/// Results of the plain version and of ours; nullopt if out of memory.
struct Comparison {
  std::optional<Taken> plain, ours;
};

/// Times both alternately, so that other load affects them equally: medians over `rounds`, after a
/// warm-up call of each.
Comparison time_both(const Work& plain, const Work& ours, c10::Device device, int rounds) {
  TimedWork of_plain(plain, device), of_ours(ours, device);
  for (int round = 0; round < rounds; ++round) {
    of_plain.measure();
    of_ours.measure();
  }
  return {of_plain.result(), of_ours.result()};
}

}  // namespace

BenchTable::BenchTable(c10::Device device, BenchChoice choice, std::vector<std::string> names)
    : device_(device), choice_(std::move(choice)), names_(std::move(names)) {
  if (std::ranges::any_of(names_, [this](const auto& name) { return wants(name); })) return;
  throw UserError("--only {}: no operator has a name with that (there are: {})", choice_.only,
                  fmt::join(names_, ", "));
}

bool BenchTable::wants(const std::string& name) const {
  TORCH_INTERNAL_ASSERT(std::ranges::find(names_, name) != names_.end(), name);
  return name.find(choice_.only) != std::string::npos;
}

bool BenchTable::wants_sizes(const std::string& sizes) const {
  return sizes.find(choice_.sizes) != std::string::npos;
}

void BenchTable::compare(const std::string& name, const std::string& sizes, Amount amount,
                         const Work& plain, const Work& ours) {
  if (!wants(name) || !wants_sizes(sizes)) return;
  if (rows_.empty()) {
    fmt::print(
        "| operator | sizes | plain ms | nsvq ms | plain : nsvq | nsvq reaches | peak GiB: plain | "
        "nsvq |\n|---|---|---|---|---|---|---|---|\n");
  }
  const auto result = time_both(plain, ours, device_, choice_.rounds);
  const double ratio =
      result.plain && result.ours ? result.plain->milliseconds / result.ours->milliseconds : NAN;
  const double rate = result.ours ? amount.value / (result.ours->milliseconds / 1e3) : NAN;
  fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} |\n", name, sizes, milliseconds(result.plain),
             milliseconds(result.ours), std::isnan(ratio) ? "-" : fmt::format("{:.2f}", ratio),
             per_second(rate, amount.unit), gibibytes(result.plain), gibibytes(result.ours));
  flush_stdout();
  rows_.push_back({{"operator", name},
                   {"sizes", sizes},
                   {"plain", as_json(result.plain)},
                   {"nsvq", as_json(result.ours)},
                   {"ratio", ratio},  // NaN, null in JSON, if one of them is missing
                   {"amount", amount.value},
                   {"unit", amount.unit}});
  if (choice_.kernels == 0 || !result.ours) return;
  profiles_.push_back(
      {fmt::format("{}, {}", name, sizes), rows_.size() - 1, profile_kernels(ours, device_, 3)});
}

void BenchTable::finish() {
  if (rows_.empty())
    throw UserError("--sizes {}: no case of the operators measured has sizes with that",
                    choice_.sizes);
  fmt::print("\n");
  for (const auto& profile : profiles_) {
    rows_[profile.row]["profile"] = print_kernels(profile.title, profile.kernels, choice_.kernels);
  }
}

}  // namespace nsvq
