#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "c10d/backend.h"
#include "c10d/python_lock.h"

namespace customccl::torch_shim {

[[gnu::always_inline]] inline void CustomBackend::run(PreparedCall& prepared) {
  const Status status = group_->run(prepared.sealed());
  stay_if_python_ends();
  if (C10_UNLIKELY(!status.ok())) fail(status);
}

[[gnu::always_inline]] inline CustomBackend::WorkPtr CustomBackend::ended_work(::c10d::OpType type) const {
  const bool renamed = type == ::c10d::OpType::ALLTOALL_BASE;
  if (C10_UNLIKELY(renamed || ::c10d::allow_inflight_collective_as_graph_input())) return finished_work(type);
  return nullptr;
}

template <class Hold>
CustomBackend::WorkPtr CustomBackend::launch(PreparedCall&& prepared, bool async, Label label, Hold&& hold) {
  std::optional<at::StepCallbacks> callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
  const bool observed = C10_UNLIKELY(callbacks.has_value()) || C10_UNLIKELY(watched());
  if (C10_LIKELY(!async)) {
    if (C10_UNLIKELY(observed)) {
      return run_observed(prepared.call(), [&] { run(prepared); }, label, hold(), std::move(callbacks));
    }
    run(prepared);
    return ended_work(label.type);
  }
  if (C10_UNLIKELY(observed || coalescing_.load(std::memory_order_relaxed))) {
    return post_all({&prepared, 1}, true, label, hold());
  }
  return begin(std::move(prepared), label, hold());
}

[[noreturn, gnu::cold, gnu::noinline]] void refuse_list(Op op, const char* what, std::size_t size);

// c10d hands over lists that hold exactly one tensor.
template <class List>
[[gnu::always_inline]] inline auto& only(List& list, Op op, const char* what) {
  if (C10_UNLIKELY(list.size() != 1)) refuse_list(op, what, list.size());
  return list[0];
}

}  // namespace customccl::torch_shim
