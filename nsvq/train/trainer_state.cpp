// How a trainer comes to be, anew or from a checkpoint, and what of it a checkpoint holds.

#include <fmt/ranges.h>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/tokenizer/recipe.h"
#include "nsvq/train/evaluate.h"
#include "nsvq/train/setup.h"
#include "nsvq/train/state.h"
#include "nsvq/train/trainer.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

void require_same_run(const Config& config, const Config& other, const std::string& from) {
  const auto differences = essential_differences(config, other);
  if (differences.empty()) return;
  throw UserError("{}: of another configuration: {}; start a new run with --run or --new", from,
                  fmt::join(differences, ", "));
}

std::optional<Checkpoint> checkpoint_to_resume(const Config& config, const fs::path& run) {
  const auto recipe = run / "config.yaml";
  if (!fs::exists(recipe)) throw UserError("{}: holds no run to resume", run.string());
  const auto folder = newest_checkpoint(run);
  if (!folder) {
    log("{}: no checkpoint to continue from, so the run starts over", run.string());
    return std::nullopt;
  }
  auto checkpoint = load_checkpoint(*folder);
  require_same_run(config, checkpoint.config, folder->string());
  log("resuming {} from {}", run.string(), folder->string());
  return checkpoint;
}

}  // namespace

Trainer::Trainer(Config config, const fs::path& run, std::shared_ptr<Group> group, Start start)
    : config_(std::move(config)),
      group_(std::move(group)),
      device_(choose_device(config_.device)),
      train_source_(open_source_of("data.train", config_.data.train)),
      val_source_(open_source_of("data.val", config_.data.val)),
      train_loader_(train_source_, training_options(config_, *group_, device_)),
      val_loader_(val_source_, evaluation_options(config_, *group_, device_)),
      model_(make_model(config_, device_)),
      ema_(config_, model_),
      optimizer_(named_parameters(*model_), config_.optimizer, ema_.parameters()),
      loss_scale_(model_->precision, device_),
      losses_(make_losses(config_, device_)),
      replacement_(make_replacement(config_, *model_->quantizer)),
      fixed_images_(first_images(val_source_, config_, *group_, config_.train.samples).to(device_)),
      phase_(phase_by_name(config_.schedule.phases.front())),
      guard_(device_, /*last=*/config_.train.on_nonfinite == "stop"),
      recorder_(device_, why_not_recorded().empty()),
      share_(at::zeros({}, at::device(device_).dtype(at::kFloat))),
      seed_(at::zeros({}, at::device(device_).dtype(at::kLong))),
      own_seed_(at::zeros_like(seed_)),
      number_(at::zeros_like(seed_)),
      usage_(at::zeros({model_->quantizer->codes()}, at::device(device_).dtype(at::kLong))),
      replaced_(at::zeros({}, usage_.options())) {
  at_.images = train_source_->size();
  if (config_.adversarial.weight > 0) adversary_.emplace(config_, device_);
  if (config_.drift.images > 0) {
    const auto images = first_images(val_source_, config_, *group_, config_.drift.images);
    drift_.emplace(images.to(device_), config_.train.batch_size, config_.quantizer.tau);
  }
  const bool fresh = start == Start::fresh;
  const auto from = fresh ? std::nullopt : checkpoint_to_resume(config_, run);
  if (from) {
    load(*from, run.string());
  } else {
    model_->quantizer->begin();
    ema_.copy_all();
  }
  const auto logs = from ? std::optional(from->logs) : std::nullopt;
  run_ = std::make_unique<RunDirectory>(fresh ? RunDirectory::create(run, config_)
                                              : RunDirectory::resume(run, config_, logs));
  add_own_hooks();
}

void Trainer::save_checkpoint() {
  settle();
  const auto now = std::pair(at_.step, at_.epoch);
  if (now == saved_) return;
  write([&] {
    run_->save(checkpoint(), config_.checkpoint.keep);
    saved_ = now;
  });
}

/// The end of a run must not be lost in silence, whatever checkpoint.on_error allowed on the way.
void Trainer::require_saved() const {
  if (saved_ == std::pair(at_.step, at_.epoch)) return;
  throw RunError(
      "{}: trained up to step {}, but the last checkpoint written is of step {}; make room "
      "and resume",
      run_->path().string(), at_.step, saved_.first);
}

Checkpoint Trainer::checkpoint() {
  Checkpoint result{config_, at_, run_->position(), named_tensors(*ema_.average()), {}};
  auto& all = result.training;
  add_prefixed(all, "model.", named_tensors(*model_));
  add_prefixed(all, "adam.", optimizer_.state());
  if (adversary_) add_prefixed(all, "discriminator.", adversary_->state());
  if (drift_) add_prefixed(all, "drift.", drift_->state());
  add_prefixed(all, "epoch.", epoch_meter_.state());
  add_prefixed(all, "step.", step_meter_.state());
  if (replacement_) add_prefixed(all, "replacement.", replacement_->state());
  add_prefixed(all, "loss_scale.", loss_scale_.state());
  all["usage"] = usage_;
  all["replaced"] = replaced_;
  return result;
}

void Trainer::load(const Checkpoint& checkpoint, const std::string& from) {
  const auto& all = checkpoint.training;
  if (checkpoint.at.images != at_.images) {
    throw UserError("{}: trained on {} images, but data.train ({}) has {}, so it cannot go on",
                    from, checkpoint.at.images, config_.data.train, at_.images);
  }
  at_ = checkpoint.at;
  // A budget may have grown; one that was spent just before the crash still has its end to come.
  at_.finished = at_.step >= total_steps() && (at_.finished || at_.batch == 0);
  saved_ = {at_.step, at_.epoch};
  load_tensors(*model_, with_prefix(all, "model."), from);
  load_tensors(*ema_.average(), checkpoint.model, from);
  optimizer_.load(with_prefix(all, "adam."), from);
  if (adversary_) adversary_->load(with_prefix(all, "discriminator."), from);
  if (drift_) drift_->load(with_prefix(all, "drift."));
  epoch_meter_.load(with_prefix(all, "epoch."));
  step_meter_.load(with_prefix(all, "step."));
  loss_scale_.load(with_prefix(all, "loss_scale."));
  if (replacement_) {
    copy_tensors(replacement_->state(), with_prefix(all, "replacement."), from);
  }
  copy_tensors({{"usage", usage_}, {"replaced", replaced_}},
               {{"usage", all.at("usage")}, {"replaced", all.at("replaced")}}, from);
  phase_ = phase_by_name(config_.schedule.phases[at_.phase]);
  freeze(*model_->encoder, !phase_.train_encoder);
}

}  // namespace nsvq
