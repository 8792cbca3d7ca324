#include "nsvq/data/data_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/overlap.h"

namespace nsvq {

namespace {

namespace fs = std::filesystem;

Sources with_key(const char* key, Sources sources, const Split& split, const std::string& unnamed) {
  try {
    return with_hashes(std::move(sources), split, unnamed);
  } catch (const UserError& error) {
    throw UserError("{}: {}", key, error.what());
  }
}

/// A source without what may be written in several ways.
std::string plain_source(const std::string& source) {
  if (source.starts_with("builtin:") || source.starts_with("pipe:")) return source;
  std::error_code ignored;
  const auto path = fs::absolute(source, ignored).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).string();
}

bool is_trained_on(const std::string& source, const DataConfig& data) {
  return std::ranges::any_of(data.train.items, [&](const auto& item) {
    return plain_source(NamedPart(item).source) == plain_source(source);
  });
}

/// What to type in place of images that are trained on, of the item `trained` of data.train.
std::string unseen_images(const std::string& trained, const DataConfig& run) {
  const auto source = NamedPart(trained).source;
  const auto training = training_sources(run);
  std::vector<Sources> choices;
  if (run.split.test > 0) choices.emplace_back(source + "#test");
  if (run.split.tune > 0) choices.emplace_back(source + "#tune");
  choices.push_back(validation_sources(run));
  for (const auto& choice : choices) {
    if (shared_images(with_hashes(choice, run.split), training)) continue;
    std::string words = "--data";
    for (const auto& item : choice.items) words += " " + shown_shell_word(item);
    return words;
  }
  return "other images";
}

}  // namespace

std::vector<Option> data_options(DataConfig& data) {
  return {
      {"data.train", &data.train,
       "training images: builtin:..., folders, tar shards, pipe:COMMAND; one or a list",
       Range::not_empty(), kNotOnResult},
      {"data.val", &data.val,
       "evaluation images: builtin:..., folders, tar shards, pipe:COMMAND; one or a list",
       Range::not_empty(), kNotOnResult},
      {"data.on_training_images", &data.on_training_images,
       "allow evaluations on images that are trained on", Range::yes_no(), kNotOnResult},
      {"data.size", &data.size, "side in pixels to which images are scaled and cropped",
       Range::between(8, 4096)},
      {"data.crop", &data.crop, "which square of a training image to take",
       Range::one_of({"random", "center"})},
      {"data.flip", &data.flip, "mirror half of the training images", Range::yes_no()},
      {"data.on_error", &data.on_error, "what to do about an unreadable image",
       Range::one_of({"skip", "stop"}), kNotOnResult},
      {"data.max_pixels", &data.max_pixels, "an image of more pixels counts as unreadable",
       Range::between(1, 1e12), kNotOnResult},
      {"data.threads", &data.threads,
       "threads that read and decode images; 0: two, and for a GPU all cores but two",
       Range::between(0, 256), kNotOnResult},
      {"data.prefetch", &data.prefetch, "batches kept ready", Range::between(1, 64), kNotOnResult},
      {"data.shuffle_buffer", &data.shuffle_buffer,
       "encoded images held to shuffle those of pipe:COMMAND", Range::between(1, 1e7)},
      {"data.retries", &data.retries, "times that a failing pipe:COMMAND is run again",
       Range::between(0, 1000), kNotOnResult},
      {"data.split.tune", &data.split.tune,
       "share of the images, by hashes of their names, that leaves training and makes data.val",
       Range::from_to_below(0, 1)},
      {"data.split.test", &data.split.test,
       "share that leaves training and is read as SOURCE#test alone", Range::from_to_below(0, 1)},
  };
}

void check_data(const DataConfig& data) {
  const auto& [tune, test] = data.split;
  if (tune + test < 1) return;
  throw UserError("data.split: tune {} and test {} leave no images to train on", tune, test);
}

std::vector<std::string> data_defaults(const DataConfig& data) {
  if (data.split.tune <= 0) return {};
  Sources tune;
  for (const auto& item : data.train.items) {
    auto part = NamedPart(item).source + "#tune";
    if (std::ranges::find(tune.items, part) == tune.items.end()) tune.items.push_back(part);
  }
  return {"data.val=" + Option{"data.val", &tune, "", Range::not_empty()}.value()};
}

Sources training_sources(const DataConfig& data) {
  return with_key("data.train", data.train, data.split, "train");
}

Sources validation_sources(const DataConfig& data) {
  auto sources = data.val;
  for (auto& item : sources.items) {
    const bool whole = data.split.on() && NamedPart(item).part.empty();
    if (whole && is_trained_on(item, data)) item += "#tune";
  }
  return with_key("data.val", std::move(sources), data.split, "all");
}

bool judges_training_images(const Sources& judged, const std::string& name, const DataConfig& run,
                            bool on_purpose) {
  const auto shared = shared_images(with_hashes(judged, run.split), training_sources(run));
  if (!shared) return false;
  if (on_purpose || run.on_training_images) {
    log("{}: the model was trained on images of {}", name, shared->name);
    return true;
  }
  throw UserError("{}: the model was trained on images of {}; give {}, or --on-training-images",
                  name, shared->name, unseen_images(shared->item, run));
}

void warn_of_seen_validation(const DataConfig& data) {
  if (data.on_training_images) return;
  const auto shared = shared_images(validation_sources(data), training_sources(data));
  if (!shared) return;
  log("data.val has images of {} that are trained on, so its figures say little about unseen "
      "images; data.split.tune holds some out",
      shared->name);
}

}  // namespace nsvq
