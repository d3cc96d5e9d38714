#include "platform/settings.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>

#include "platform/byte_size.h"
#include "platform/log.h"
#include "platform/settings_reader.h"

namespace customccl {
namespace {

// A parser stores the value and returns nothing, or says what it would have understood.
using Complaint = std::optional<std::string>;
using Parser = Complaint (*)(std::string_view text, Settings& out);

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kTiB = 1024 * 1024 * kMiB;

std::string bytes_expected(std::size_t least, std::size_t most) {
  return "a number of bytes from " + format_byte_size(least) + " to " + format_byte_size(most) +
         " (K, M, G and T are understood, as in 64K)";
}

template <auto Member, std::size_t Least, std::size_t Most>
Complaint bytes(std::string_view text, Settings& out) {
  const auto value = parse_byte_size(text);
  if (!value || *value < Least || *value > Most) {
    return bytes_expected(Least, Most);
  }
  out.*Member = *value;
  return std::nullopt;
}

// Beside a number of bytes: auto is none, off is one that nothing reaches.
template <auto Member, std::size_t Least, std::size_t Most>
Complaint bytes_or_auto(std::string_view text, Settings& out) {
  out.*Member = std::nullopt;
  if (text == "auto") return std::nullopt;
  out.*Member = std::numeric_limits<std::size_t>::max();
  if (text == "off") return std::nullopt;
  const auto value = parse_byte_size(text);
  if (!value || *value < Least || *value > Most) return "auto, off or " + bytes_expected(Least, Most);
  out.*Member = value;
  return std::nullopt;
}

template <auto Member>
Complaint microseconds(std::string_view text, Settings& out) {
  constexpr std::int64_t kMost = 10'000'000;
  std::int64_t value = -1;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size() || value < 0 || value > kMost) {
    return "whole microseconds from 0 to " + std::to_string(kMost);
  }
  out.*Member = std::chrono::microseconds(value);
  return std::nullopt;
}

template <auto Member>
Complaint flag(std::string_view text, Settings& out) {
  if (text != "0" && text != "1") return "0 or 1";
  out.*Member = text == "1";
  return std::nullopt;
}

// `Choices` is a comma list; the text must be one of them.
template <auto Member, const std::string_view& Choices>
Complaint one_of(std::string_view text, Settings& out) {
  if (!list_contains(Choices, text)) return "one of " + std::string(Choices);
  out.*Member = text;
  return std::nullopt;
}

// `Choices` is a comma list; the text may hold any of them, or nothing.
template <auto Member, const std::string_view& Choices>
Complaint any_of(std::string_view text, Settings& out) {
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    if (!list_contains(Choices, rest.substr(0, comma))) return "nothing, or a comma list of " + std::string(Choices);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  out.*Member = text;
  return std::nullopt;
}

constexpr std::string_view kStorePolicies = "auto,plain,streaming";
constexpr std::string_view kIsas = "auto,baseline,avx2,avx512";
constexpr std::string_view kLogLevels = "off,error,warning,info,debug";
constexpr std::string_view kMechanisms = "memfd,membarrier,process_vm_readv,huge_pages";

struct Row {
  std::string_view variable;
  std::string_view meaning;
  std::string_view default_value;  // as a user would write it: read by the same parser
  Parser parse;
};

using S = Settings;
constexpr std::array kRows{
    Row{"CUSTOMCCL_ARENA_BYTES", "address space reserved per process for shared memory; sparse, so it costs nothing",
        "16G", bytes<&S::arena_bytes, 16 * kMiB, 64 * kTiB>},
    Row{"CUSTOMCCL_SLOT_BYTES", "size of one staging slot of a large operation", "512K",
        bytes<&S::slot_bytes, 4 * kKiB, 1024 * kMiB>},
    Row{"CUSTOMCCL_ONE_SHOT_BYTES", "reductions up to this size divided by the ranks are done by every rank at once",
        "16K", bytes<&S::one_shot_bytes, 0, 16 * kMiB>},
    Row{"CUSTOMCCL_STAGING_BUDGET", "staging memory of all groups of a process together; beyond it slots shrink", "1G",
        bytes<&S::staging_budget, 1 * kMiB, 64 * kTiB>},
    Row{"CUSTOMCCL_MAILBOX_BYTES", "ring for send and recv per ordered pair of ranks that talk; large groups take less",
        "2M", bytes<&S::mailbox_bytes, 4 * kKiB, 1024 * kMiB>},
    Row{"CUSTOMCCL_SPIN_US", "longest spin of a wait before it yields, when every rank has a processor", "50",
        microseconds<&S::spin>},
    Row{"CUSTOMCCL_YIELD_US", "how long a wait yields before it sleeps", "1000", microseconds<&S::yield>},
    Row{"CUSTOMCCL_PROGRESS_THREAD",
        "1: a thread moves asynchronous work on; 0: only wait() and polls do, and get_future(), which returns when the "
        "operation is over",
        "1", flag<&S::progress_thread>},
    Row{"CUSTOMCCL_STORE_POLICY", "how staging is written: plain or streaming (non-temporal) stores, or auto", "auto",
        one_of<&S::store_policy, kStorePolicies>},
    Row{"CUSTOMCCL_READ_PEERS",
        "inputs of all_gather and all_to_all with so many bytes per peer are read in their process (process_vm_readv), "
        "not staged; off: none, auto: where that is faster",
        "auto", bytes_or_auto<&S::read_peers, 1, 64 * kTiB>},
    Row{"CUSTOMCCL_ISA", "widest instruction set of the kernels", "auto", one_of<&S::isa, kIsas>},
    Row{"CUSTOMCCL_LOG", "which messages go to stderr", "warning", one_of<&S::log, kLogLevels>},
    Row{"CUSTOMCCL_DISABLE", "mechanisms of the system to do without, as if it refused them; for tests", "",
        any_of<&S::disable, kMechanisms>},
};

// Constructed once and never destroyed: threads may ask for settings while the process exits.
const SettingsReading& reading() {
  static const SettingsReading& once = *[] {
    auto* made = new SettingsReading(read_settings([](const char* variable) { return std::getenv(variable); }));
    if (log_level_named(made->settings.log) >= LogLevel::kWarning) {
      for (const std::string& complaint : complaints_about_strangers(environ)) made->complaints.push_back(complaint);
      for (const std::string& complaint : made->complaints) write_log_line(LogLevel::kWarning, complaint);
    }
    return made;
  }();
  return once;
}

}  // namespace

SettingsReading read_settings(const Environment& environment) {
  SettingsReading out{};
  for (const Row& row : kRows) {
    std::string_view accepted = row.default_value;
    row.parse(accepted, out.settings);
    if (const char* text = environment(row.variable.data()); text != nullptr) {
      if (const Complaint expected = row.parse(text, out.settings); !expected) {
        accepted = text;
      } else {
        out.complaints.push_back(std::string(row.variable) + "=\"" + text + "\" is not understood: expected " +
                                 *expected + ". The default \"" + std::string(row.default_value) + "\" is used.");
      }
    }
    out.table.push_back({row.variable, row.meaning, std::string(row.default_value), std::string(accepted)});
  }
  return out;
}

std::vector<std::string> complaints_about_strangers(const char* const* environment) {
  constexpr std::string_view kPrefix = "CUSTOMCCL_";
  std::vector<std::string> out;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix) || name.substr(kPrefix.size()).starts_with("TEST_")) continue;
    if (std::ranges::find(kRows, name, &Row::variable) != kRows.end()) continue;
    out.push_back(
        std::string(name) +
        " is set but is no setting of customccl, so it does nothing; python -m torch_customccl info lists all");
  }
  return out;
}

bool list_contains(std::string_view names, std::string_view name) {
  if (name.empty() || name.find(',') != std::string_view::npos) return false;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    if (names.substr(begin, end - begin) == name) return true;
    begin = end + 1;
  }
  return false;
}

const Settings& settings() { return reading().settings; }

bool disabled(std::string_view mechanism) { return list_contains(settings().disable, mechanism); }

std::span<const SettingInfo> describe_settings() { return reading().table; }

}  // namespace customccl
