#pragma once

// Which call on a file is to fail, and how: for the library in shim.cpp. Variables of the
// environment:
//   NSVQ_FAULT_FOLDER   absolute path; calls on files elsewhere are passed on
//   NSVQ_FAULT_KIND     a name of kKindNames, or "change": any that changes files (the first seven)
//   NSVQ_FAULT_AT       the n of the n-th such call, from 1; 0 disturbs nothing
//   NSVQ_FAULT_WHAT     an errno as a number (that call only), or
//     short   half of the bytes are written or read
//     full    from there on nothing that takes room succeeds (ENOSPC)
//     readonly   from there on nothing changes (EROFS), as when Linux remounts a bad disk
//     gone    from there on no call succeeds (ESTALE), as when a server of files is lost
//     crash   the process ends
//     lose    the process ends and files lose what was not synced, as in a power cut; also after
//     the
//             end of a process that makes fewer calls
//     future, past   from there on the time of day is a day off
//   NSVQ_FAULT_REPORT   file that gets "KIND CALLS" for each kind at the end, and "hit PATH"
// Allocations of NSVQ_FAULT_BYTES or more count, once a file of the folder was met: before that,
// libraries are being loaded. Files that stdio opens are not seen.

namespace faults {

enum Kind { open_, mkdir_, write_, sync_, rename_, truncate_, remove_, read_, mmap_, malloc_ };
inline constexpr const char* kKindNames[] = {"open",     "mkdir",  "write", "sync", "rename",
                                             "truncate", "remove", "read",  "mmap", "malloc"};

/// Result of the functions below: only half of the bytes are read or written.
inline constexpr int kShort = -1;

/// The fault of this call: 0 (none), an errno, or kShort. `base` as for openat.
int fault_at_path(Kind kind, int base, const char* name);
int fault_of_descriptor(Kind kind, int descriptor);
int fault_of_allocation(unsigned long size);

/// note_write: a file is about to be written to; note_sync: it is on the disk (all files, with
/// `whole_system`).
void note_write(int descriptor);
void note_sync(int descriptor, bool whole_system);

/// Seconds that the time of day is off.
long clock_shift();

}  // namespace faults
