#include "nsvq/runs/checkpoint.h"

#include <tuple>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/folder_checksums.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/runs/layout/layout.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// Throws UserError for a file that cannot be opened: it may well be whole.
void require_readable(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : entries_of(folder, error)) {
    const InputFile opened(entry.path());
  }
  if (error) throw UserError("cannot read {}: {}", folder.string(), error.message());
}

}  // namespace

void save_checkpoint(const fs::path& folder, const Checkpoint& checkpoint) {
  AtomicFolder out(folder);
  write_safetensors(out.path() / kModelFile, checkpoint.model);
  write_safetensors(out.path() / kTrainingFile, {checkpoint.training, {}});
  write_text(out.path() / kStateFile, state_to_json(checkpoint.state, checkpoint.logs));
  write_checksums(out.path());
  out.commit();
}

Checkpoint load_checkpoint(const fs::path& folder) {
  Checkpoint checkpoint;
  const auto source = (folder / kStateFile).string();
  std::tie(checkpoint.state, checkpoint.logs) = state_from_json(read_text(source), source);
  checkpoint.model = read_safetensors(folder / kModelFile);
  checkpoint.training = read_safetensors(folder / kTrainingFile).tensors;
  return checkpoint;
}

std::optional<fs::path> newest_checkpoint(const fs::path& run) {
  const auto folders = list_checkpoints(run);
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    require_readable(*folder);
    const auto damage = folder_damage(*folder);
    if (!damage) return *folder;
    log("{}: damaged ({}), trying the checkpoint before it", folder->string(), *damage);
  }
  if (folders.empty()) return std::nullopt;
  throw UserError(
      "{}: all of its checkpoints are damaged; nothing was changed (to train anew, choose "
      "another folder with --run)",
      run.string());
}

RunState load_run_state(const fs::path& folder) {
  const auto path = (folder / kStateFile).string();
  return state_from_json(read_text(path), path).first;
}

}  // namespace nsvq
