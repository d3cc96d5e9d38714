#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/op.h"
#include "kernels/copy.h"
#include "platform/clock.h"

namespace customccl::shm {

// Chooses how a rank writes its staging. Stores into memory that the reader's core still caches are slow across last-level
// caches (each line must be taken back) and non-temporal ones are not; within one cache it is often the other way round. Which
// case this is cannot be read off any table in a virtual machine, and changes when the hypervisor moves a core. So it is measured
// on the operations themselves, per size class: the first ones try both, the faster stays, now and then the other is tried
// again, and at once when three in a row took clearly longer than was known, or when another size has found that it is faster by
// now: when cores come together, non-temporal stores need not become slower. (1 MiB 125 us far, 162 near; 64 MiB 7.3 ms and 11 to 12,
// where plain ones then take 7.) The choice concerns only the writer, so ranks need not agree; as they count alike, they try alike.
// (Figures: docs/measured-decisions.md.)
//
// Each kind leaves the staging where the other finds it badly: the first plain store after non-temporal ones fetches every line
// from memory, and only those after it meet them in the cache. So each kind is tried several times in a row, unless the first
// shows that there is no hope. (1 MiB, near cores: 115, 69, 61, 60 us in a row of plain stores, 162 us by non-temporal
// ones; a single try beside other work took 209 and was never followed. Far cores: 600 and 125 us.) What two ranks exchange lies in
// four places (staging.h), so the fifth is the first that can be warm. (dist.all_reduce of 64 KiB in bursts of eight between those of other
// backends, near: with rows of three 13.6 us, as no try ever looked good, else 7.6.) Where staging moves on, plain
// stores come round to lines that they know only after all places. (Scatter of 1 MiB, near: the root's times 40, 38, 36, 36, ..., after
// twelve 24 us; by non-temporal stores 29.) A size that is new begins with what the nearest one does.
//
// A rank's own time shows what a kind of store costs only in a `mutual` operation, where it also reads as much, written the same way: a
// root that has put its data down is off before anybody pays for it. (Broadcast, near cores, the root alone and all, plain and
// non-temporal: 64 KiB 3.8 and 5.9 us, 2.6 and 6.4 us; 256 KiB 6.6 and 12.7 us, 9.5 and 22.9 us.) So of others it is told the time of the
// writer and its readers together (reader_times.h), and they learn apart.
//
// So does each operation: what all read (all_gather) and what each reads a part of can want different kinds, and their times compare
// with nothing. (16 cores across a mesh, all_gather of 64 KiB by plain and non-temporal stores: 4 ranks 6.7 and 10.8 us, 16 ranks 12.3 and
// 7.5, all_reduce of 16 KiB, which stages as much, 4 ranks 6.4 and 5.7. Rows are too short for what moves on there: 4 ranks still find
// non-temporal stores better, and 16 ranks plain ones.)
class StorePolicy {
 public:
  // Up to here plain, and nothing is measured: the reader takes it from our cache.
  static constexpr std::size_t kSmall = 1 << 10;
  // What learns apart.
  struct Kind {
    Op op;
    bool mutual;
  };
  static constexpr Store other_than(Store store) { return store == Store::kPlain ? Store::kStreaming : Store::kPlain; }

  StorePolicy();

  // For an operation that stages `bytes`. `measure` tells the caller to report the time of this one.
  Store choose(std::size_t bytes, Kind kind, bool& measure) {
    measure = false;
    if (bytes <= kSmall) return small_;
    return fixed_ ? small_ : choose_between(bytes, kind, measure);
  }
  // May come after the choice for a later operation.
  void observe(Store store, std::size_t bytes, Kind kind, Nanos took);
  // Instead of it: something else took the time of the operation, or it was not taken. A trial that was to decide is repeated.
  void forget(Store store, std::size_t bytes, Kind kind);

 private:
  static constexpr std::size_t kLarge = 256 << 10;  // from here on reading the clock costs nothing beside the operation
  static constexpr std::size_t kMovesOn = 1 << 20;  // up to here staging does (staging.h)
  static constexpr std::uint32_t kMeasure = 17;     // every 17th is measured, of the large ones all,
  static constexpr std::uint32_t kRetry = 127;      // and every 127th tries the other way,
  static constexpr std::uint32_t kShortRow = 6;     // so many in a row, of which the last counts,
  static constexpr std::uint32_t kRow = 4;          // of the large ones so many, of which the best does,
  static constexpr std::uint32_t kLongRow = 12;     // and by plain stores so many where staging moves on
  static constexpr double kDecisive = 1.3;          // so much faster makes all sizes look again
  // So many times in a row so much slower than was known, and a kind is doubted. A time may be better than it will ever be again; so
  // after a doubt it takes more for the next one, until so many operations are over; twice as many after each doubt that changed
  // nothing. And where staging moves on, as plain stores are slow after others.
  static constexpr std::uint32_t kDoubtful = 3;
  static constexpr double kSlower = 1.4;
  static constexpr double kMuchSlower = 2;
  static constexpr std::uint32_t kLeastTrust = 8;
  static constexpr std::uint32_t kMostTrust = 128;
  static constexpr std::size_t kClasses = 17;  // by powers of two from kSmall

  struct Class {
    std::uint32_t count = 0;
    std::uint32_t slow = 0;     // measurements in a row that were slower than was known
    double least = 0;           // the best of them
    bool doubted = false;       // they were kDoubtful: the next operations try the other way
    std::uint32_t trusted = 0;  // until so many operations only much slower is slow
    std::uint32_t trust = kLeastTrust;
    std::uint32_t row = 0;  // operations to come that try `tried`
    Store tried = Store::kPlain;
    std::array<double, 2> cost{0, 0};  // ns per byte, by Store; 0 = not known
    bool look_again = false;           // another size has found that the other kind is faster by now
    double cost_of(Store store) const { return cost[static_cast<std::size_t>(store)]; }
    bool knows_both() const { return cost[0] != 0 && cost[1] != 0; }
    // First trials meet cold memory, where both kinds cost nearly the same; in warm memory only plain stores gain.
    Store preferred() const {
      if (!knows_both()) return cost[1] != 0 ? Store::kStreaming : Store::kPlain;
      return cost[1] < 0.9 * cost[0] ? Store::kStreaming : Store::kPlain;
    }
    void try_in_row(Store store, std::size_t bytes) {
      tried = store;
      row = bytes < kLarge ? kShortRow : store == Store::kPlain && bytes <= kMovesOn ? kLongRow : kRow;
    }
  };
  static void learn(Class& known, Store store, std::size_t bytes, double cost);
  static std::size_t index_of(std::size_t bytes);
  using Classes = std::array<Class, kClasses>;
  static std::size_t index_of(Kind kind) { return 2 * static_cast<std::size_t>(kind.op) + (kind.mutual ? 0 : 1); }
  Class& class_of(std::size_t bytes, Kind kind);
  // The class nearest to `bytes` that knows both ways, of this kind rather than of another, or nullptr.
  const Class* nearest_known(std::size_t bytes, Kind kind) const;

  Store choose_between(std::size_t bytes, Kind kind, bool& measure);

  bool fixed_ = false;
  Store small_ = Store::kPlain;                                    // up to kSmall, and for all where the kind is fixed
  std::array<std::unique_ptr<Classes>, 2 * kOps.size()> classes_;  // of kinds that have come
};

}  // namespace customccl::shm
