#pragma once

#include <exception>

namespace customccl {

// Does what may find no memory. False: an exception ended it, and the caller does without.
template <class Action>
bool attempt(Action&& action) noexcept {
  try {
    action();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace customccl
