#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>

#include "c10d/backend.h"
#include "c10d/errors.h"
#include "c10d/timeout_check.h"

// How groups come about: from a store, and from other groups.

namespace customccl::torch_shim {

c10::intrusive_ptr<CustomOptions> CustomBackend::own_options(const GroupSpec& spec, const OptionsPtr& given) {
  const auto* ours = dynamic_cast<const CustomOptions*>(given.get());
  auto own = ours != nullptr ? c10::make_intrusive<CustomOptions>(*ours) : c10::make_intrusive<CustomOptions>();
  own->timeout = std::chrono::duration_cast<std::chrono::milliseconds>(spec.timeout);
  own->group_name = spec.name;
  own->global_ranks_in_group.assign(spec.global_ranks.begin(), spec.global_ranks.end());
  return own;
}

c10::intrusive_ptr<CustomBackend> CustomBackend::create(GroupKeys& keys, const GroupSpec& spec,
                                                        const OptionsPtr& options, const Attendance& attendance) {
  StoreBootstrap bootstrap(keys, spec, attendance);
  std::shared_ptr<Communicator> group;
  Status status;
  do {
    status = Communicator::create(spec, bootstrap, group);
    if (status.code == Code::kUnreachable) {
      if (Status heard = bootstrap.hear_of_all(); !heard.ok()) status = std::move(heard);
    } else if (!status.ok()) {
      bootstrap.follow_any();
    }
  } while (!status.ok() && bootstrap.has_moved());
  check(status);
  return c10::make_intrusive<CustomBackend>(std::move(group), keys.part(), own_options(spec, options));
}

// A part of `store`, as a parent that serves two kinds of devices is split once for each, with one store.
c10::intrusive_ptr<CustomBackend> CustomBackend::create_in(const StorePtr& store, const GroupSpec& spec,
                                                           const OptionsPtr& options, const Attendance& attendance) {
  check_timeout(std::chrono::duration_cast<std::chrono::milliseconds>(spec.timeout));
  GroupKeys keys(store, spec.rank);
  return create(keys, spec, options, attendance);
}

CustomBackend::BackendPtr CustomBackend::split(const StorePtr& store, const std::vector<int>& ranks,
                                               const OptionsPtr& options) {
  const GroupSpec& parent = group_->spec();
  GroupSpec spec;
  spec.rank = -1;
  spec.size = static_cast<int>(ranks.size());
  spec.name = options && !options->group_name.empty() ? options->group_name : parent.name + "/split";
  spec.timeout = options ? to_limit(options->timeout) : parent.timeout;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    TORCH_CHECK_VALUE(ranks[i] >= 0 && ranks[i] < getSize(), "customccl: split names rank ", ranks[i],
                      " of a group of ", getSize());
    spec.global_ranks.push_back(group_->global_rank(ranks[i]));
    if (ranks[i] == getRank()) spec.rank = static_cast<int>(i);
  }
  if (spec.rank < 0) return nullptr;
  return create_in(store, spec, options, Attendance(group_, ranks));
}

CustomBackend::BackendPtr CustomBackend::merge(const StorePtr& store, const OptionsPtr& options, const int& rank,
                                               const int& size) {
  TORCH_CHECK_VALUE(size >= 1 && rank >= 0 && rank < size, "customccl: rank ", rank, " of ", size,
                    " ranks makes no sense");
  GroupSpec spec;
  spec.rank = rank;
  spec.size = size;
  spec.name = options && !options->group_name.empty() ? options->group_name : group_->spec().name + "/merge";
  spec.timeout = options ? to_limit(options->timeout) : group_->spec().timeout;
  for (int member = 0; member < size; ++member) spec.global_ranks.push_back(member);
  return create_in(store, spec, options, Attendance());
}

CustomBackend::BackendPtr CustomBackend::shrink(const std::vector<std::int64_t>& ranks_to_exclude, int /*flags*/,
                                                const OptionsPtr& options) {
  const auto excluded = [&](int rank) {
    return std::find(ranks_to_exclude.begin(), ranks_to_exclude.end(), rank) != ranks_to_exclude.end();
  };
  for (const std::int64_t rank : ranks_to_exclude)
    TORCH_CHECK_VALUE(rank >= 0 && rank < getSize(), "customccl: shrink names rank ", rank, " of a group of ",
                      getSize());
  TORCH_CHECK_VALUE(!excluded(getRank()), "customccl: shrink was called by rank ", getRank(), ", which it excludes");
  std::vector<int> survivors;
  std::string name = group_->spec().name + "/without";
  for (int rank = 0; rank < getSize(); ++rank) {
    if (!excluded(rank)) {
      survivors.push_back(rank);
    } else {
      name.append("-").append(std::to_string(group_->global_rank(rank)));
    }
  }
  // Survivors shrink alike, so who is left out and how often they did it make a prefix that all of them know.
  auto store = c10::make_intrusive<::c10d::PrefixStore>(name.append("/").append(std::to_string(++shrinks_)), store_);
  return split(store, survivors, options);
}

}  // namespace customccl::torch_shim
