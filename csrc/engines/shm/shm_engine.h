#pragma once

#include <memory>

#include "engines/engine.h"
#include "engines/shm/algorithm.h"
#include "engines/shm/reader_times.h"
#include "engines/shm/shm_packet_port.h"
#include "engines/shm/stopwatch.h"
#include "engines/shm/store_policy.h"

namespace customccl::shm {

// Collectives between ranks that share memory: the turn protocol (control_block.h) with an algorithm per operation and size.
class ShmEngine final : public Engine {
 public:
  explicit ShmEngine(std::unique_ptr<Members> members)
      : members_(std::move(members)),
        context_{*members_, staging_, scratch_, pairs_, shown_},
        staging_(*members_),
        shown_(*members_, pairs_),
        reader_times_(*members_),
        port_(*members_) {}

  [[gnu::hot]] Step start(Operation& op, Status& failure) override;
  [[gnu::hot]] Step advance(Operation& op, Status& failure) override;
  bool shares_processor() const override { return members_->shares_processor(); }
  Status diagnose(const Operation& op) override { return members_->diagnose(awaited(op)); }
  std::vector<int> awaited(const Operation& op) const override;
  Code gone(int member) const override { return members_->gone(member); }
  void withdraw_tensors(const Operation& op) noexcept override {
    if (op.algorithm != nullptr && op.algorithm->uses_staging) shown_.withdraw(*op.call);
  }
  void abandon() noexcept override { members_->abandon(); }
  void fail(const Status& why) override { members_->fail(why); }

  void suspend() override { staging_.give_pages(); }
  Status resume() override { return staging_.take_pages(); }
  std::size_t staging_bytes() const override { return staging_.bytes(); }

  PacketPort* packet_port() override { return &port_; }

 private:
  [[gnu::hot]] Store choose_store(Operation& op);
  // Has the time of what follows taken.
  void measure(Operation& op);
  void ask_readers(Operation& op);
  void end_staged(const Operation& op);
  // Of one that is over and was measured.
  void learn_from(const Operation& op);
  static StorePolicy::Kind kind_of(const Operation& op) { return {op.call->op, op.mutual}; }
  StorePolicy& store_policy() { return shown_.shows_input() ? shown_store_policy_ : store_policy_; }
  // Phase 0 of what goes through staging, or is shown.
  [[gnu::hot]] Status stage(Operation& op, Line& line);
  [[gnu::always_inline]] void run_phase(Operation& op) {
    if (op.measured) [[unlikely]]
      return run_measured(op);
    op.algorithm->run(context_, op, op.phase);
  }
  [[gnu::noinline]] void run_measured(Operation& op);
  // Tells what this rank has called, for who sees that not all have called the same.
  void record(const Operation& op);
  bool recorded(const Operation& op, int member) const {
    return members_->line(member, op.first_turn).recorded.load(std::memory_order_acquire) == op.first_turn;
  }
  // Whether every rank has told what it called; this one does so here. Asked where a peer's signature is another: then every rank sees one
  // that is not its own, so all tell.
  bool all_recorded(const Operation& op);
  // Not ok: a rank has called something else. Counts that belong to pairs of ranks are compared as such (pair_counts.h).
  Status compare_records(const Operation& op);
  // Has what the operation reads next come from the peers' caches while we look at other things.
  [[gnu::hot]] void fetch_staged(const Operation& op);
  [[gnu::hot]] Status enter(Operation& op, bool same);
  // After a phase that is not the last one, or where any rank shows its tensors.
  [[gnu::noinline]] Step go_on(Operation& op, Status& failure);
  static Step failed(Status&& why, Status& failure);

  // What every operation needs lies together.
  std::unique_ptr<Members> members_;
  std::uint64_t turn_ = 0;  // the last one published by this rank
  // Of the running operation:
  std::uint64_t signature_ = 0;
  Stopwatch stopwatch_;  // where it is measured
  Context context_;

  Staging staging_;
  // Into staging, or into tensors that peers have read where they lie.
  StorePolicy store_policy_;
  StorePolicy shown_store_policy_;
  Scratch scratch_;
  PairCounts pairs_;
  ShownTensors shown_;
  ReaderTimes reader_times_;
  ShmPacketPort port_;
};

}  // namespace customccl::shm
