// What a checkpoint holds of a tokenizer's training.

#include <cmath>
#include <nlohmann/json.hpp>

#include "nsvq/core/error.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/runs/run_state.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/train/vq/tokenizer_task.h"

namespace nsvq {

using nlohmann::json;

namespace {

/// JSON has no NaN; null stands for it.
double number(const json& value) { return value.is_null() ? NAN : value.get<double>(); }

}  // namespace

TensorFile TokenizerTask::model(const RunState& state) {
  return model_contents(
      named_tensors(*averaged_model_), config_,
      {{"nsvq.step", std::to_string(state.step)}, {"nsvq.epoch", std::to_string(state.epoch)}});
}

TensorMap TokenizerTask::training_state() {
  TensorMap all;
  add_prefixed(all, "model.", named_tensors(*model_));
  add_prefixed(all, "adam.", optimizer_.state());
  if (adversary_) add_prefixed(all, "discriminator.", adversary_->state());
  if (drift_) add_prefixed(all, "drift.", drift_->state());
  if (replacement_) add_prefixed(all, "replacement.", replacement_->state());
  for (const auto& [name, count] : counts()) all[name] = over_ranks(count);
  all["replaced"] = replaced_;
  return all;
}

/// Without the discriminator's batch norms where their running statistics are of each rank's
/// images.
TensorMap TokenizerTask::shared_tensors() {
  TensorMap all;
  add_prefixed(all, "model.", named_tensors(*model_));
  add_prefixed(all, "average.", named_tensors(*averaged_model_));
  add_prefixed(all, "adam.", optimizer_.state());
  if (!adversary_) return all;
  for (const auto& item : adversary_->module().named_parameters()) {
    all["discriminator." + item.key()] = item.value();
  }
  if (config_.dist.batch_norm == "all") {
    for (const auto& item : adversary_->module().named_buffers()) {
      all["discriminator." + item.key()] = item.value();
    }
  }
  add_prefixed(all, "discriminator.adam.", adversary_->optimizer().state());
  return all;
}

torch::Tensor TokenizerTask::over_ranks(const torch::Tensor& count) const {
  if (group_->alone()) return count;
  const auto sum = count.clone();
  group_->sum({sum});
  return sum;
}

/// Of this rank. Windows that end with epochs are counted by the epoch's usage and means.
TensorMap TokenizerTask::counts() const {
  TensorMap counts = {{"usage", usage_}};
  if (config_.replacement.every_steps > 0) counts["window_usage"] = window_usage_;
  if (config_.schedule.epoch_steps > 0) counts["window_commitment"] = window_commitment_;
  return counts;
}

std::string TokenizerTask::state() const {
  auto health = json::array();
  for (const auto& epoch : state_.health) {
    health.push_back({epoch.utilisation, epoch.latent_norm, epoch.neighbours, epoch.pixel_error});
  }
  return json{{"phase", state_.phase},
              {"phase_start", state_.phase_start},
              {"phase_start_step", state_.phase_start_step},
              {"commitment", state_.commitment},
              {"health", health},
              {"alarms", state_.alarms},
              {"drift", state_.drift},
              {"best_psnr", state_.best_psnr},
              {"best_epoch", state_.best_epoch}}
      .dump();
}

void TokenizerTask::load(const TensorMap& model, const TensorMap& training,
                         const std::string& state, const std::string& from) {
  try {
    const auto all = parse_json(state);
    const auto whole = [&all](const std::string& key, int64_t most = kMostCounted) {
      return whole_number(all.at(key), "task." + key, 0, most);
    };
    state_ = {};
    state_.phase = whole("phase", static_cast<int64_t>(config_.schedule.phases.size()) - 1);
    state_.phase_start = whole("phase_start");
    state_.phase_start_step = whole("phase_start_step");
    for (const auto& value : all.at("commitment")) state_.commitment.push_back(number(value));
    for (const auto& row : all.at("health")) {
      // Earlier versions wrote three.
      state_.health.push_back({number(row.at(0)), number(row.at(1)), number(row.at(2)),
                               row.size() > 3 ? number(row.at(3)) : NAN});
    }
    state_.alarms = all.at("alarms").get<std::set<std::string>>();
    for (const auto& [name, value] : all.at("drift").items()) state_.drift[name] = number(value);
    state_.best_psnr = number(all.at("best_psnr"));
    state_.best_epoch = whole("best_epoch");
  } catch (const json::exception& error) {
    throw UserError("{}: state.json: not a tokenizer's training state ({})", from,
                    plain_words(error));
  } catch (const UserError& error) {
    throw UserError("{}: state.json: {}", from, error.what());
  }
  load_tensors(*model_, with_prefix(training, "model."), from);
  load_tensors(*averaged_model_, model, from);
  optimizer_.load(with_prefix(training, "adam."), from);
  if (adversary_) adversary_->load(with_prefix(training, "discriminator."), from);
  if (drift_) drift_->load(with_prefix(training, "drift."), from);
  if (replacement_) {
    copy_tensors(replacement_->state(), with_prefix(training, "replacement."), from);
  }
  auto all_counts = counts();
  all_counts["replaced"] = replaced_;
  TensorMap stored;
  for (const auto& [name, tensor] : all_counts) {
    if (const auto found = training.find(name); found != training.end()) stored.insert(*found);
  }
  copy_tensors(all_counts, stored, from);
  // The counts of all ranks go on in rank 0's.
  if (!group_->leads()) {
    for (const auto& [name, count] : counts()) count.zero_();
  }
  set_phase(state_.phase);
}

}  // namespace nsvq
