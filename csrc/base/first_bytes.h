#pragma once

#include <cstddef>
#include <string_view>

namespace customccl {

// As much of `text` as so many bytes hold, cut off between two characters of UTF-8: Python cannot read a part of one.
inline std::string_view first_bytes(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

}  // namespace customccl
