#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engines/shm/members.h"

namespace customccl::shm {

// Every rank's staging: kSlots slots in its own arena into which it copies what peers shall read. Slot of turn t: t mod kSlots;
// at least two are needed (control_block.h), more only spread the stores over more memory. Made when a group first needs it.
class Staging {
 public:
  static constexpr std::size_t kSlots = 4;

  explicit Staging(Members& members) : members_(members), bases_(static_cast<std::size_t>(members.size()), nullptr) {}

  // Before publishing the turn that first uses staging: makes this rank's and shows it.
  Status ensure_own();
  // After the first turn of an operation that uses staging: finds everybody's.
  Status ensure_all();

  std::size_t slot_bytes() const { return members_.slot_bytes(); }
  std::byte* own_slot(std::uint64_t turn) { return slot(members_.rank(), turn); }
  std::byte* slot(int member, std::uint64_t turn) {
    return bases_[static_cast<std::size_t>(member)] + (turn % kSlots) * slot_bytes();
  }

 private:
  Members& members_;
  std::vector<std::byte*> bases_;
  bool complete_ = false;
};

}  // namespace customccl::shm
