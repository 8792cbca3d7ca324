#include "nsvq/report/line.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <set>

namespace nsvq {
namespace {

/// The points of [begin, end) worth keeping.
std::set<size_t> extremes(const std::vector<Point>& points, size_t begin, size_t end,
                          const std::function<bool(Point)>& drawable) {
  const size_t none = points.size();
  size_t low = none, high = none, gap = none;
  for (size_t i = begin; i < end; ++i) {
    if (!drawable(points[i])) {
      if (gap == none) gap = i;
      continue;
    }
    if (low == none || points[i].y < points[low].y) low = i;
    if (high == none || points[i].y > points[high].y) high = i;
  }
  std::set<size_t> kept{low, high, gap};
  kept.erase(none);
  return kept;
}

/// The mean of the points of [begin, end) that can be drawn, one by one: a sum could overflow.
double mean_of(const std::vector<Point>& points, size_t begin, size_t end,
               const std::function<bool(Point)>& drawable) {
  double mean = 0, count = 0;
  for (size_t i = begin; i < end; ++i)
    if (drawable(points[i])) mean += (points[i].y - mean) / ++count;
  return mean;
}

}  // namespace

Segments split_segments(const std::vector<Point>& points,
                        const std::function<bool(Point)>& drawable) {
  Segments segments;
  bool open = false;
  for (const Point& point : points) {
    if (!drawable(point)) {
      open = false;
      continue;
    }
    if (!open) segments.emplace_back();
    segments.back().push_back(point);
    open = true;
  }
  return segments;
}

Thinned thin(const std::vector<Point>& points, size_t limit,
             const std::function<bool(Point)>& drawable) {
  if (points.size() <= limit) return {points, {}};
  const size_t buckets = std::max<size_t>(1, limit / 2);
  std::map<size_t, double> kept;  // with the mean of the bucket
  for (size_t b = 0; b < buckets; ++b) {
    const size_t begin = b * points.size() / buckets, end = (b + 1) * points.size() / buckets;
    auto chosen = extremes(points, begin, end, drawable);
    if (b == 0) chosen.insert(0);
    if (b + 1 == buckets) chosen.insert(points.size() - 1);
    const double mean = mean_of(points, begin, end, drawable);
    for (const size_t i : chosen) kept[i] = mean;
  }
  Thinned out;
  for (const auto& [i, mean] : kept) {
    out.points.push_back(points[i]);
    // What breaks the line breaks its average.
    out.means.push_back(drawable(points[i]) ? mean : std::numeric_limits<double>::quiet_NaN());
  }
  return out;
}

}  // namespace nsvq
