#include "nsvq/io/formats/pytorch/pickle.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

/// Modules of which a file of weights has no use, by the first part of their names.
constexpr auto kModules =
    std::to_array<std::string_view>({"_operator",  "_pickle",   "_posixsubprocess",
                                     "_socket",    "_thread",   "asyncio",
                                     "bdb",        "cProfile",  "code",
                                     "codeop",     "commands",  "ctypes",
                                     "dill",       "ftplib",    "http",
                                     "imp",        "importlib", "marshal",
                                     "nt",         "operator",  "os",
                                     "pdb",        "pickle",    "pip",
                                     "pkgutil",    "platform",  "popen2",
                                     "posix",      "profile",   "pty",
                                     "requests",   "runpy",     "shutil",
                                     "signal",     "socket",    "subprocess",
                                     "sys",        "timeit",    "urllib",
                                     "webbrowser", "zipimport"});

/// Functions, classes and parts of modules that have harmless ones too.
constexpr auto kNames = std::to_array<std::string_view>(
    {"_io.open", "io.open", "multiprocessing.", "numpy.load", "numpy.testing.", "threading.Thread",
     "torch.hub.", "torch.jit.load", "torch.load", "torch.ops.", "torch.package.",
     "torch.serialization.load", "torch.utils.cpp_extension.", "types.CodeType",
     "types.FunctionType"});

/// What Python itself has that only makes values.
constexpr auto kBuiltins = std::to_array<std::string_view>(
    {"bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "long",
     "object", "range", "set", "slice", "str", "tuple", "type", "unicode", "xrange"});

bool is_hostile(std::string_view name) {
  const auto module = name.substr(0, name.find('.'));
  if (module == "builtins" || module == "__builtin__") {
    return std::ranges::find(kBuiltins, name.substr(module.size() + 1)) == kBuiltins.end();
  }
  return std::ranges::find(kModules, module) != kModules.end() ||
         std::ranges::any_of(kNames, [&](auto begin) { return name.starts_with(begin); });
}

}  // namespace

void refuse_hostile(const Pickle& pickle) {
  for (const auto& value : pickle.values) {
    if (value.kind != PickleKind::global || !is_hostile(value.text)) continue;
    throw UserError(
        "it names {}, which would run where Python reads it; nothing of it was run, and it is "
        "refused",
        quote(value.text));
  }
}

}  // namespace nsvq
