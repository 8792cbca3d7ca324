#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/train/alarm.h"

namespace nsvq {

/// Where a run stands, apart from its tensors. What is random needs no state: every draw is a
/// function of the seed, its purpose and the epoch.
struct Progression {
  int64_t step = 0;                ///< optimizer steps taken
  int64_t epoch = 0;               ///< epochs finished
  int64_t batch = 0;               ///< batches taken of the epoch under way
  int64_t phase = 0;               ///< position in schedule.phases
  int64_t phase_start = 0;         ///< epochs finished when the phase began
  int64_t phase_start_step = 0;    ///< and steps taken
  int64_t skipped = 0;             ///< steps left out because something was not finite
  int64_t images = 0;              ///< size of the training source, which fixes the order of images
  bool finished = false;           ///< the budget is spent
  std::vector<double> commitment;  ///< mean commitment loss of each epoch
  std::vector<HealthSigns> health;      ///< of each epoch
  std::set<std::string> alarms;         ///< signs of collapse that were reported and still hold
  std::map<std::string, double> drift;  ///< its last measurement
  std::map<std::string, double> evaluation;  ///< the last one
  double best_psnr = 0;                      ///< of all evaluations
  int64_t best_epoch = 0;
};

/// How much of a run's logs belongs to a checkpoint: what follows is written again by a run that
/// continues from it.
struct LogPosition {
  uint64_t metrics = 0;  ///< bytes of metrics.jsonl
  std::string events;    ///< name of the event file
  uint64_t events_length = 0;
};

/// Both as the text of state.json, and back. Throws UserError calling the text `source`.
std::string state_to_json(const Progression& at, const LogPosition& logs);
std::pair<Progression, LogPosition> state_from_json(const std::string& text,
                                                    const std::string& source);

}  // namespace nsvq
