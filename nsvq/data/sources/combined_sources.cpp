#include "nsvq/data/sources/combined_sources.h"

#include <set>
#include <stdexcept>
#include <string_view>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/file.h"

namespace nsvq {

JoinedSource::JoinedSource(std::vector<Part> parts) : parts_(std::move(parts)), starts_{0} {
  std::set<std::string> names;
  bool numbered = false;
  for (const auto& [source, prefix] : parts_) {
    starts_.push_back(starts_.back() + source->size());
    const auto classes = source->classes();
    names.insert(classes.begin(), classes.end());
    numbered |= classes.empty() && source->size() > 0 && source->label(0) >= 0;
  }
  if (numbered && !names.empty()) {
    throw UserError(
        "classes of some sources are names of folders, classes of others are numbers (.cls); give "
        "sources with the same kind of classes");
  }
  classes_.assign(names.begin(), names.end());
  for (const auto& part : parts_) {
    std::vector<int64_t> numbers;
    for (const auto& name : part.source->classes()) {
      numbers.push_back(std::lower_bound(classes_.begin(), classes_.end(), name) -
                        classes_.begin());
    }
    numbers_.push_back(std::move(numbers));
  }
}

JoinedSource::Position JoinedSource::position_of(int64_t index) const {
  if (index < 0) throw std::out_of_range("an image before the first");
  const size_t part = std::upper_bound(starts_.begin(), starts_.end(), index) - starts_.begin() - 1;
  return {part, index - starts_[part]};
}

std::string JoinedSource::key(int64_t index) const {
  const auto [part, own] = position_of(index);
  return parts_.at(part).prefix + parts_[part].source->key(own);
}

int64_t JoinedSource::label(int64_t index) const {
  const auto [part, own] = position_of(index);
  const int64_t label = parts_.at(part).source->label(own);
  return label < 0 || numbers_[part].empty() ? label : numbers_[part].at(label);
}

Image JoinedSource::load(int64_t index) const {
  const auto [part, own] = position_of(index);
  return parts_.at(part).source->load(own);
}

std::shared_ptr<const Source> limited(std::shared_ptr<const Source> source, int64_t limit) {
  if (limit == 0) return source;
  return std::make_shared<LimitedSource>(std::move(source), limit);
}

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
