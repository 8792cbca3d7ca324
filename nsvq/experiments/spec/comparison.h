#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// NaN for no values.
double mean_of(const std::vector<double>& values);
/// Sample standard deviation; 0 for fewer than two values.
double deviation_of(const std::vector<double>& values);
double median_of(std::vector<double> values);

/// Spearman's rank correlation: the correlation of ranks, equal values having the mean of theirs.
/// nullopt for fewer than three pairs, or where one side is all equal.
std::optional<double> rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

/// A text as a finite number; nullopt if it is none.
std::optional<double> number_of(const std::string& text);

/// One side of a comparison: a number, or the figure of a run times a factor:
///   0.9   nsvq:psnr   0.9 * simvq:fid   max(protected@*:utilisation)
/// A run with `vary` has its value behind an @. `*` stands for any text; min, max or mean make one
/// number of the rows it fits. Alone on the right side it is every other row, and the comparison
/// must hold for each of them.
struct Term {
  double factor = 1;     ///< the number itself where there is no column
  std::string function;  ///< min, max, mean, or empty
  std::string run, column;

  bool matches(std::string_view name) const;
};

struct FigureComparison {
  Term left, right;
  std::string sign;  ///< <, <=, > or >=
  std::string text;
};

/// Throws UserError, beginning with `where`, for what is no comparison.
FigureComparison parse_comparison(const std::string& text, const std::string& where);

/// A figure over seeds; `missing` says why there is none.
struct SeedFigures {
  std::vector<double> values;
  std::string missing;
};

enum class ClaimVerdict { holds, fails, untested };

struct ComparisonResult {
  ClaimVerdict verdict = ClaimVerdict::untested;
  std::string why;  ///< numbers on both sides, or the reason why it is not tested
};

/// The rows of a table, in order.
struct RowNames {
  std::vector<std::string> all;
  std::vector<std::string> with_star;         ///< rows that a name with `*` can stand for
  std::map<std::string, std::string> titles;  ///< in tables, by name

  std::string title(const std::string& name) const;  ///< the name itself where none is known
};

/// Compares means over seeds. `figure` has the values by row and column.
ComparisonResult compare_figures(
    const FigureComparison& comparison, const RowNames& names,
    const std::function<SeedFigures(const std::string& run, const std::string& column)>& figure);

}  // namespace nsvq
