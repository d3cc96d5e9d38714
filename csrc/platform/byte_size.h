#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// Sizes as people write them: a whole number and an optional K, M, G or T (powers of 1024).

namespace customccl {

// "64K" -> 65536. Nothing when the text is not a size or does not fit.
std::optional<std::size_t> parse_byte_size(std::string_view text);

// 65536 -> "64K": the largest unit that divides the size, so that parsing gives the same number again.
std::string format_byte_size(std::size_t bytes);

}  // namespace customccl
