#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

// What went wrong, as a value. Errors become exceptions only at the torch boundary (csrc/c10d).

namespace customccl {

enum class Code : std::uint8_t {
  kOk,
  kInvalidArgument,  // refused on this rank before anything was sent; the group goes on
  kMismatch,         // the ranks called different things
  kTimeout,          // a deadline passed
  kPeerDied,         // a process of the group is gone
  kPeerLeft,         // a rank destroyed the group while others still used it
  kAborted,          // somebody called abort()
  kClosed,           // the group was closed on this rank
  kUnreachable,      // ranks cannot share memory
  kSystem,           // the operating system refused something
};

// Two words while all is well: every step of every operation returns one.
struct [[nodiscard]] Status {
  Code code = Code::kOk;
  int culprit = -1;  // global rank that caused it, or -1

  Status() = default;
  // Cold: what leads to an error, its text above all, is kept away from the code that runs while all is well.
  [[gnu::cold, gnu::noinline]] Status(Code code_, std::string message, int culprit_ = -1) noexcept
      : code(code_), culprit(culprit_), message_(kept(std::move(message))) {}
  Status(const Status& other) noexcept : code(other.code), culprit(other.culprit) {
    if (other.message_ != nullptr) message_ = kept(*other.message_);
  }
  Status(Status&&) noexcept = default;
  Status& operator=(const Status& other) { return *this = Status(other); }
  Status& operator=(Status&&) noexcept = default;
  [[gnu::always_inline]] ~Status() {
    if (message_ == nullptr) [[likely]]
      return;
    message_.reset();
  }

  bool ok() const { return code == Code::kOk; }
  // A whole sentence or two, for a person.
  const std::string& message() const {
    if (message_ != nullptr) return *message_;
    return ok() ? no_text : lost_text;
  }

 private:
  // Made when the library is loaded, as there may be no memory later; and never destroyed, as threads may outlive the end of main().
  inline static const std::string& no_text = *new std::string();
  inline static const std::string& lost_text = *new std::string("there was no memory for saying why");
  // Nothing where there is no memory: an error is told all the same.
  template <class Text>
  [[gnu::cold]] static std::unique_ptr<std::string> kept(Text&& message) noexcept {
    try {
      return std::make_unique<std::string>(std::forward<Text>(message));
    } catch (...) {
      return nullptr;
    }
  }

  std::unique_ptr<std::string> message_;
};

}  // namespace customccl
