#include "platform/byte_size.h"

#include <charconv>
#include <limits>

namespace customccl {
namespace {

constexpr std::string_view kUnits = "KMGT";

}  // namespace

std::optional<std::size_t> parse_byte_size(std::string_view text) {
  std::size_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view suffix = text.substr(static_cast<std::size_t>(rest - text.data()));
  if (suffix.empty()) return number;

  const char upper = suffix[0] >= 'a' ? static_cast<char>(suffix[0] - 'a' + 'A') : suffix[0];
  const std::size_t unit = kUnits.find(upper);
  if (suffix.size() > 1 || unit == std::string_view::npos) return std::nullopt;
  const std::size_t shift = 10 * (unit + 1);
  if (number > (std::numeric_limits<std::size_t>::max() >> shift)) return std::nullopt;
  return number << shift;
}

std::string format_byte_size(std::size_t bytes) {
  std::size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  std::string text = std::to_string(bytes);
  if (unit > 0) text += kUnits[unit - 1];
  return text;
}

}  // namespace customccl
