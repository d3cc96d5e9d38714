#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/settings.h"

// Reading the settings as a pure function of an environment, so that tests need not touch the real one.

namespace customccl {

// The text of a variable, or nullptr.
using Environment = std::function<const char*(const char* variable)>;

struct SettingsReading {
  Settings settings;
  std::vector<SettingInfo> table;       // one row per setting, in order
  std::vector<std::string> complaints;  // one sentence per value that was refused
};

SettingsReading read_settings(const Environment& environment);

// One sentence per variable of `environment` ("NAME=value", ended by nullptr, as environ(7)) that has our prefix but is no
// setting: a misspelt one would do nothing, and nobody would know. Those of the tests are left out.
std::vector<std::string> complaints_about_strangers(const char* const* environment);

// Whether the comma list `names` holds `name` as a whole word.
bool list_contains(std::string_view names, std::string_view name);

}  // namespace customccl
