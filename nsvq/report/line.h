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

/// About `limit` points at most (half as many again where the line is broken often): the lowest,
/// the highest and a missing one of every stretch, and the two ends, so that spikes and gaps stay
/// visible.
std::vector<Point> thin(const std::vector<Point>& points, size_t limit,
                        const std::function<bool(Point)>& drawable);

}  // namespace nsvq
