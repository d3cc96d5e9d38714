#pragma once

#include "c10d/backend.h"

namespace customccl::torch_shim {

template <class Hold>
CustomBackend::WorkPtr CustomBackend::launch(PreparedCall&& prepared, bool async, Label label, Hold&& hold) {
  if (!async) {
    // What the base class does for asynchronous Works: one profiler event, with the shapes of the inputs.
    at::RecordFunction record(at::RecordScope::USER_SCOPE);
    if (C10_UNLIKELY(record.isActive() || watched())) return run_observed(prepared, label, hold(), record);
    run(prepared);
    return finished_work(label.type);
  }
  return post_all({&prepared, 1}, true, label, hold());
}

// c10d hands over lists that hold exactly one tensor.
template <class List>
auto& only(List& list, Op op, const char* what) {
  TORCH_CHECK_VALUE(list.size() == 1, "customccl: ", name(op), " takes one ", what, " per call, got ", list.size());
  return list[0];
}

}  // namespace customccl::torch_shim
