#include "nsvq/experiments/spec/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    const double rank = static_cast<double>(first + end + 1) / 2;  // ranks first + 1 to end
    for (; first < end; ++first) ranks[order[first]] = rank;
  }
  return ranks;
}

}  // namespace

double mean_of(const std::vector<double>& values) {
  if (values.empty()) return NAN;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation_of(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

double median_of(std::vector<double> values) {
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::optional<double> rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.size() < 3) return std::nullopt;
  const auto left = ranks_of(a), right = ranks_of(b);
  const double middle = static_cast<double>(a.size() + 1) / 2;
  double both = 0, first = 0, second = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    both += (left[i] - middle) * (right[i] - middle);
    first += (left[i] - middle) * (left[i] - middle);
    second += (right[i] - middle) * (right[i] - middle);
  }
  if (first == 0 || second == 0) return std::nullopt;
  return both / std::sqrt(first * second);
}

namespace {

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(' ') - first + 1));
}

/// Whether `*` in the pattern can be filled so that it becomes the text.
bool fits(std::string_view pattern, std::string_view text) {
  const auto star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (text.substr(0, star) != pattern.substr(0, star)) return false;
  for (size_t at = star; at <= text.size(); ++at) {
    if (fits(pattern.substr(star + 1), text.substr(at))) return true;
  }
  return false;
}

std::optional<Term> parse_term(std::string text) {
  Term term;
  if (const auto number = number_of(text)) {
    term.factor = *number;
    return term;
  }
  // A factor, which stands apart from the * of names by spaces.
  if (const auto times = text.find(" * "); times != std::string::npos) {
    const auto factor = number_of(trimmed(text.substr(0, times)));
    if (!factor) return std::nullopt;
    term.factor = *factor;
    text = trimmed(text.substr(times + 3));
  }
  for (const std::string name : {"min", "max", "mean"}) {
    if (!text.starts_with(name + "(") || !text.ends_with(')')) continue;
    term.function = name;
    text = trimmed(text.substr(name.size() + 1, text.size() - name.size() - 2));
  }
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) return std::nullopt;
  term.run = text.substr(0, colon);
  term.column = text.substr(colon + 1);
  if (text.find_first_of(" ()<>=") != std::string::npos) return std::nullopt;
  if (std::count(term.run.begin(), term.run.end(), '*') > 4) return std::nullopt;
  return term;
}

/// The value of a term for one or several rows.
struct TermValue {
  double value = NAN, spread = 0;
  std::string missing;
};

using FigureOf = std::function<SeedFigures(const std::string&, const std::string&)>;

const std::vector<std::string>& candidates(const Term& term, const RowNames& names) {
  return term.run.find('*') == std::string::npos ? names.all : names.with_star;
}

TermValue value_of(const Term& term, const RowNames& names, const FigureOf& figure) {
  if (term.column.empty()) return {term.factor, 0, ""};
  std::vector<double> means;
  double spread = 0;
  for (const auto& name : candidates(term, names)) {
    if (!term.matches(name)) continue;
    const auto seeds = figure(name, term.column);
    if (seeds.values.empty()) {
      return {NAN, 0, fmt::format("{} of {}: {}", term.column, name, seeds.missing)};
    }
    means.push_back(mean_of(seeds.values));
    spread = std::max(spread, deviation_of(seeds.values));
  }
  if (means.empty()) return {NAN, 0, fmt::format("{} is not run at this scale", term.run)};
  double value = mean_of(means);
  if (term.function == "min") value = *std::min_element(means.begin(), means.end());
  if (term.function == "max") value = *std::max_element(means.begin(), means.end());
  if (!std::isfinite(value))
    return {NAN, 0, fmt::format("{} of {} is no number", term.column, term.run)};
  return {term.factor * value, std::abs(term.factor) * spread, ""};
}

bool is_true(double left, const std::string& sign, double right) {
  if (sign == "<") return left < right;
  if (sign == "<=") return left <= right;
  if (sign == ">") return left > right;
  return left >= right;
}

ComparisonResult compare_terms(const FigureComparison& comparison, const TermValue& left,
                               const TermValue& right) {
  for (const auto* side : {&left, &right}) {
    if (!side->missing.empty()) return {ClaimVerdict::untested, side->missing};
  }
  auto why = fmt::format("{:.4g} {} {:.4g}", left.value, comparison.sign, right.value);
  const bool holds = is_true(left.value, comparison.sign, right.value);
  if (!holds) why = fmt::format("not {}", why);
  if (std::abs(left.value - right.value) < left.spread + right.spread) {
    why += ", within the spread of seeds";
  }
  return {holds ? ClaimVerdict::holds : ClaimVerdict::fails, why};
}

}  // namespace

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool Term::matches(std::string_view name) const { return fits(run, name); }

std::string RowNames::title(const std::string& name) const {
  const auto found = titles.find(name);
  return found == titles.end() ? name : found->second;
}

FigureComparison parse_comparison(const std::string& text, const std::string& where) {
  for (const std::string sign : {"<=", ">=", "<", ">"}) {
    const auto at = text.find(" " + sign + " ");
    if (at == std::string::npos) continue;
    const auto left = parse_term(trimmed(text.substr(0, at)));
    const auto right = parse_term(trimmed(text.substr(at + sign.size() + 2)));
    if (!left || !right) break;
    return {*left, *right, sign, text};
  }
  throw UserError(
      "{}: {} is no comparison, such as 'nsvq:fid < simvq:fid' or 'min(nsvq:psnr) >= 20'", where,
      quote(text));
}

ComparisonResult compare_figures(const FigureComparison& comparison, const RowNames& names,
                                 const FigureOf& figure) {
  const auto left = value_of(comparison.left, names, figure);
  const auto& other = comparison.right;
  if (other.run != "*" || !other.function.empty()) {
    return compare_terms(comparison, left, value_of(other, names, figure));
  }
  // Every other row; the result names the farthest one for which it fails, else the closest.
  std::optional<ComparisonResult> result, failed;
  double closest = INFINITY, farthest = -1;
  for (const auto& name : names.with_star) {
    if (comparison.left.matches(name)) continue;
    Term one = other;
    one.run = name;
    const auto right = value_of(one, names, figure);
    auto next = compare_terms(comparison, left, right);
    if (next.verdict != ClaimVerdict::untested) next.why += fmt::format(" ({})", names.title(name));
    const double margin = std::abs(left.value - right.value);
    if (next.verdict == ClaimVerdict::fails && margin > farthest) {
      failed = next;
      farthest = margin;
    }
    if (next.verdict == ClaimVerdict::fails) continue;
    if (result && result->verdict == ClaimVerdict::untested) continue;
    if (next.verdict == ClaimVerdict::holds && !(margin < closest)) continue;
    result = next;
    closest = margin;
  }
  if (failed) return *failed;
  return result.value_or(ComparisonResult{ClaimVerdict::untested, "there is no other row"});
}

}  // namespace nsvq
