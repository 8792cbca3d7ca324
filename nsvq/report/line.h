#pragma once

#include <functional>
#include <vector>

namespace nsvq {

struct Point {
  double x = 0;
  double y = 0;
};

/// Stretches of neighbouring points that can be drawn; what cannot be drawn breaks the line.
using Segments = std::vector<std::vector<Point>>;
Segments split_segments(const std::vector<Point>& points,
                        const std::function<bool(Point)>& drawable);

/// A line of fewer points.
struct Thinned {
  std::vector<Point> points;
  /// For each of them the mean of what can be drawn of its stretch, for averages: those of lowest
  /// and highest points tell nothing of the line. Empty where no point was left out.
  std::vector<double> means;
};

/// About `limit` points at most (half as many again where the line is broken often): the lowest,
/// the highest and a missing one of every stretch, and the two ends, so that spikes and gaps stay
/// visible.
Thinned thin(const std::vector<Point>& points, size_t limit,
             const std::function<bool(Point)>& drawable);

}  // namespace nsvq
