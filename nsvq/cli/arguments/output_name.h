#pragma once

#include <string>
#include <vector>

#include "nsvq/cli/arguments/file_kind.h"
#include "nsvq/settings/sources.h"

namespace nsvq {

/// Throws UserError for a folder's name that ends like a file's (`rec.webp`, but not `tokens.v2`),
/// unless there is such a folder or the name ends in a slash, for one among the checkpoints of a
/// run, and for "-". `files` says which files --out takes, such as "FILE.png"; empty if none.
void require_folder_name(const std::string& out, const std::string& files);

/// Throws RunError where a file cannot be written, UserError where something else stands in the
/// place of its folder, so that it is known before the work; nothing for an empty name. Folders
/// that are missing are made with the file.
void require_writable(const std::string& file);

/// Throws UserError, naming the option, for a file that exists, is not empty and of another kind: a
/// name given by mistake, of an image perhaps, must not cost the file. Likewise for a file
/// among the checkpoints of a run, whatever its kind.
void require_replaceable(const std::string& option, const std::string& file, FileKind kind);

/// Throws UserError for a file that exists and is one of the images of --data, also behind links.
void require_no_image(const std::string& option, const std::string& file, const Sources& data);

/// An option, or what else stands for a file, and the file's name; empty or "-" if it names none.
struct NamedFile {
  std::string option, file;
};

/// Throws UserError where two of these are one file, whatever they are called: of two outputs one
/// would be lost, and an input would be replaced. Devices and pipes may have several uses.
void require_distinct(const std::vector<NamedFile>& files);

}  // namespace nsvq
