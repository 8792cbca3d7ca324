#pragma once

#include <any>
#include <map>
#include <typeindex>

namespace nsvq {

/// Structs of settings, looked up by their type: what single members of a family (quantizers,
/// losses, replacement policies) add to the settings that all of them share. So a member's struct
/// stands beside the family's kinds (nsvq/quantizers/members.h):
///
///     struct FsqConfig { std::vector<int64_t> levels = {8, 8, 8, 5, 5, 5}; };
///     config.quantizer.of<FsqConfig>().levels
///
/// Copies are independent of each other. A reference stays valid until the object is assigned to
/// or destroyed.
class MemberSettings {
 public:
  template <typename Settings>
  Settings& of() {
    auto& held = settings_[typeid(Settings)];
    if (!held.has_value()) held = Settings{};
    return *std::any_cast<Settings>(&held);
  }
  /// Defaults where nothing was set.
  template <typename Settings>
  const Settings& of() const {
    static const Settings defaults;
    const auto found = settings_.find(typeid(Settings));
    return found == settings_.end() ? defaults : *std::any_cast<Settings>(&found->second);
  }

 private:
  std::map<std::type_index, std::any> settings_;
};

}  // namespace nsvq
