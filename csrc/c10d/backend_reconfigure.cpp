#include <algorithm>

#include "c10d/backend.h"
#include "c10d/reconfiguration.h"
#include "c10d/timeout_check.h"

// Groups whose members change while they exist (torch 2.14 and later).

namespace customccl::torch_shim {

c10::intrusive_ptr<CustomBackend> CustomBackend::create_unconnected(const StorePtr& store, const GroupSpec& spec,
                                                                    const OptionsPtr& options) {
  auto group = Communicator::unconnected(
      spec,
      "it was made with enable_reconfigure and has met nobody yet. Call reconfigure() with the handles of its ranks");
  return c10::make_intrusive<CustomBackend>(std::move(group), store, own_options(spec, options));
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE

namespace {

// By rank. A set has no order of its own, so all ranks sort.
std::vector<std::string> by_rank(const ::c10d::ReconfigureOptions& options) {
  if (const auto* ordered = std::get_if<std::vector<std::string>>(&options.handles)) return *ordered;
  const auto& unordered = std::get<std::unordered_set<std::string>>(options.handles);
  std::vector<std::string> handles(unordered.begin(), unordered.end());
  std::sort(handles.begin(), handles.end());
  return handles;
}

}  // namespace

::c10d::ReconfigureHandle CustomBackend::get_reconfigure_handle() const { return reconfiguration_->handle(); }

CustomBackend::WorkPtr CustomBackend::reconfigure(const ::c10d::ReconfigureOptions& options) {
  const std::chrono::milliseconds limit = options.timeout.value_or(options_->timeout);
  check_timeout(limit);
  GroupSpec spec;
  // With the uuid, so that messages tell the memberships apart, and so do the keys that shrink() makes of it.
  spec.name = options_->group_name + ", uuid " + std::to_string(options.uuid);
  spec.timeout = to_limit(limit);
  adopt(reconfiguration_->meet(options.uuid, by_rank(options), std::move(spec)));
  return c10::make_intrusive<DoneWork>();
}

void CustomBackend::adopt(std::shared_ptr<Communicator> group) {
  const GroupSpec& spec = group->spec();
  group->set_timeout(options_->timeout);
  options_->global_ranks_in_group.assign(spec.global_ranks.begin(), spec.global_ranks.end());
  former_ = std::exchange(group_, std::move(group));
  rank_ = spec.rank;
  size_ = spec.size;
  shrinks_ = 0;
  former_->close("reconfigure() has given the group other members");
  abort_hooks_->rearm();
}

#endif

}  // namespace customccl::torch_shim
