#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "nsvq/data/sources/source.h"

namespace nsvq {

/// The first `limit` images of another source.
class LimitedSource : public Source {
 public:
  LimitedSource(std::shared_ptr<const Source> source, int64_t limit)
      : source_(std::move(source)), size_(std::min(limit, source_->size())) {}

  int64_t size() const override { return size_; }
  std::string key(int64_t index) const override { return source_->key(index); }
  int64_t label(int64_t index) const override { return source_->label(index); }
  std::vector<std::string> classes() const override { return source_->classes(); }
  Image load(int64_t index) const override { return source_->load(index); }
  const SequentialShards* shards() const override { return source_->shards(); }
  BrokenLog& broken_log() const override { return source_->broken_log(); }

 private:
  std::shared_ptr<const Source> source_;
  int64_t size_;
};

}  // namespace nsvq
