#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/status.h"
#include "capi/error.h"

// Structures of customccl.h begin with their size, so that libraries and programs of different ages understand each other.

namespace customccl::capi {

// Copies what `given` and this library's `out` have in common. A longer one, from a newer program, must be zero behind that.
// When a structure has grown: fields that a shorter, older one lacks stay zero.
template <class Struct>
Status take_struct(const Struct* given, const char* what, Struct& out) {
  constexpr std::size_t kMost = 4096;  // a size beyond that was never set
  const std::size_t size = given->size;
  if (size < sizeof(Struct) || size > kMost) {
    return invalid(std::string(what) + ".size is " + std::to_string(size) +
                   ", which no version of customccl.h has; set it to sizeof(" + what + ")");
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  if (std::any_of(bytes + sizeof(Struct), bytes + size, [](unsigned char byte) { return byte != 0; })) {
    return invalid(std::string(what) +
                   " has fields set that this version of the library does not know; update the library");
  }
  std::memcpy(&out, given, sizeof(Struct));
  return {};
}

}  // namespace customccl::capi
