#include "nsvq/data/sources/named_classes.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/processes/stream.h"

namespace nsvq {

NamedClasses::NamedClasses(std::shared_ptr<const Source> source, std::vector<std::string> names,
                           const std::string& list)
    : source_(std::move(source)), names_(std::move(names)) {
  const auto classes = source_->classes();
  if (classes.empty()) {
    throw UserError("the images have no class names (folders) that a list could number");
  }
  for (const auto& name : classes) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) {
      throw UserError("{}: class {} of the images is not among its {} names", list, quote(name),
                      names_.size());
    }
    numbers_.push_back(found - names_.begin());
  }
}

int64_t NamedClasses::label(int64_t index) const {
  const int64_t label = source_->label(index);
  return label < 0 ? label : numbers_.at(label);
}

std::vector<std::string> read_class_names(const std::filesystem::path& file) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  const auto bytes = read_stream(file);  // <(command) too
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string name(text.substr(at, end - at));
    at = end + 1;
    if (!name.empty() && name.back() == '\r') name.pop_back();
    const auto where = fmt::format("{}:{}", file.string(), names.size() + 1);
    if (name.empty()) throw UserError("{}: an empty line where a class name is due", where);
    if (!seen.insert(name).second) throw UserError("{}: {} is there twice", where, quote(name));
    names.push_back(std::move(name));
  }
  if (names.empty()) throw UserError("{}: no class names, one a line", file.string());
  return names;
}

}  // namespace nsvq
