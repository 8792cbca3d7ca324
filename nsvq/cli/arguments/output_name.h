#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace nsvq {

/// An option that names a file, and the name; empty where it was not given.
struct NamedFile {
  std::string option, file;
  std::string ending = {};  ///< files that exist are replaced only if they have it; empty: any
};

/// Declares `--force`: files that exist are replaced. Folders never are.
void declare_force(CLI::App& app, bool& force);

/// The rule for every file that an option asks a command to write; called before the work begins.
/// Throws UserError, naming the option, for a file that exists and is not empty, unless `force`;
/// for a folder; for "-"; for two options with one file; where the file cannot be written; and,
/// whatever `force` says, for one of `inputs` or an image in a folder among them, for a file of
/// another ending and for records of runs and tokens. Throws MachineFailure, such as NoRoom.
/// Folders that are missing are made with the file. Devices and pipes are written as they are.
void check_output_files(const std::vector<NamedFile>& outputs, bool force,
                        const std::vector<NamedFile>& inputs = {});

/// Throws UserError where an output that exists is among what `inputs` name: an image in a folder,
/// a file of a list or of a pattern.
void require_unread(const NamedFile& output, const std::vector<NamedFile>& inputs);

/// The rule for `--out` of a folder: new, empty, or begun by the same command, which its own record
/// or manifest tells later. Throws UserError for "-", for a file and where no folder can be made,
/// NoRoom where the disk is full.
void check_output_folder(const std::string& out);

/// Throws UserError where two of these are one file, whatever they are called.
void require_distinct(const std::vector<NamedFile>& files);

}  // namespace nsvq
