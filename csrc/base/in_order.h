#pragma once

#include <cstddef>

namespace customccl {

// Whether row i of a table has value i of its enum in the member `key`: so it is where those look that find rows by their value.
template <class Table, class Row, class Enum>
constexpr bool in_order(const Table& table, Enum Row::* key) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (static_cast<std::size_t>(table[i].*key) != i) return false;
  }
  return true;
}

}  // namespace customccl
