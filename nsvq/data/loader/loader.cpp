#include "nsvq/data/loader/loader.h"

#include <utility>

#include "nsvq/data/loader/batch_maker.h"

namespace nsvq {

namespace {

LoaderOptions with_bytes_for_gpu(LoaderOptions options) {
  options.bytes = options.bytes || !options.device.is_cpu();
  return options;
}

}  // namespace

Loader::Loader(std::shared_ptr<const Source> source, LoaderOptions options)
    : maker_(std::make_unique<BatchMaker>(source, with_bytes_for_gpu(options))) {
  if (maker_->options().bytes) feeder_.emplace(options.device);
}

Loader::~Loader() = default;

int64_t Loader::batches_per_epoch() const { return maker_->batches_per_epoch(); }

void Loader::start(int64_t epoch, int64_t batch, int64_t used) {
  ahead_.reset();
  maker_->start(epoch, batch, used);
}

std::optional<Batch> Loader::next() {
  if (!feeder_) return maker_->next();
  auto sent = ahead_ ? std::exchange(ahead_, std::nullopt) : send(maker_->next());
  if (!sent) return std::nullopt;
  ahead_ = send(maker_->next_if_ready());
  return Batch{feeder_->receive(std::move(sent->images)), std::move(sent->indices)};
}

std::optional<Loader::Sent> Loader::send(std::optional<Batch> batch) {
  if (!batch) return std::nullopt;
  return Sent{feeder_->send(batch->images), std::move(batch->indices)};
}

int64_t Loader::broken() const { return maker_->broken(); }

}  // namespace nsvq
