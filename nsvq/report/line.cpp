#include "nsvq/report/line.h"

#include <algorithm>
#include <cstddef>
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

std::vector<Point> thin(const std::vector<Point>& points, size_t limit,
                        const std::function<bool(Point)>& drawable) {
  if (points.size() <= limit) return points;
  const size_t buckets = std::max<size_t>(1, limit / 2);
  std::set<size_t> kept{0, points.size() - 1};
  for (size_t b = 0; b < buckets; ++b)
    kept.merge(
        extremes(points, b * points.size() / buckets, (b + 1) * points.size() / buckets, drawable));
  std::vector<Point> out;
  for (const size_t i : kept) out.push_back(points[i]);
  return out;
}

}  // namespace nsvq
