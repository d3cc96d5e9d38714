#include "kernels/reduce.h"

#include <array>
#include <atomic>

#include "kernels/float_mode.h"
#include "kernels/reduce_table.h"
#include "platform/cpu.h"

namespace customccl {
namespace kernels {

const ReduceTable& reduce_table([[maybe_unused]] InstructionSet set) {
#if defined(CUSTOMCCL_VECTOR_KERNELS)
  if (set == InstructionSet::kAvx512) return kAvx512Table;
  if (set == InstructionSet::kAvx2) return kAvx2Table;
#endif
  return kBaselineTable;
}

namespace {

[[gnu::noinline]] void reduce_one(const ReduceTable& table, std::byte* dst, const std::byte* source, std::size_t count,
                                  DType dtype, const ReduceHints& hints) {
  const ReduceWay& way = table.of_one_source[static_cast<std::size_t>(dtype)];
  const std::array twice{source, source};
  way.loop(dst, twice.data(), twice.size(), count * way.parts, hints);
}

// Apart from all else, so that a call in the usual mode only looks.
[[gnu::cold, gnu::noinline]] void reduce_in_usual_mode(const ReduceTable& table, std::byte* dst,
                                                       std::span<const std::byte* const> sources, std::size_t count,
                                                       DType dtype, ReduceOp op, const ReduceHints& hints) {
  const UsualFloats usual;
  reduce(table, dst, sources, count, dtype, op, hints);
}

[[gnu::cold, gnu::noinline]] void scale_in_usual_mode(const ReduceTable& table, std::byte* dst, const std::byte* src,
                                                      std::size_t count, DType dtype, std::complex<double> factor) {
  const UsualFloats usual;
  scale(table, dst, src, count, dtype, factor);
}

}  // namespace

void reduce(const ReduceTable& table, std::byte* dst, std::span<const std::byte* const> sources, std::size_t count,
            DType dtype, ReduceOp op, const ReduceHints& hints) {
  if (!UsualFloats::set_already()) [[unlikely]]
    return reduce_in_usual_mode(table, dst, sources, count, dtype, op, hints);
  if (sources.size() == 1) return reduce_one(table, dst, sources[0], count, dtype, hints);
  const ReduceWay& way = table.reduce[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(op)];
  way.loop(dst, sources.data(), sources.size(), count * way.parts, hints);
}

void scale(const ReduceTable& table, std::byte* dst, const std::byte* src, std::size_t count, DType dtype,
           std::complex<double> factor) {
  if (!UsualFloats::set_already()) [[unlikely]]
    return scale_in_usual_mode(table, dst, src, count, dtype, factor);
  // A real factor scales both parts alone: in the full product an infinite part times zero would make the other NaN.
  const bool split = factor.imag() == 0.0 && component(dtype) != dtype;
  const DType used = split ? component(dtype) : dtype;
  table.scale[static_cast<std::size_t>(used)](dst, src, split ? 2 * count : count, factor);
}

}  // namespace kernels

namespace {

std::atomic<const kernels::ReduceTable*> active_table{nullptr};

[[gnu::cold, gnu::noinline]] const kernels::ReduceTable& find_table() {
  const kernels::ReduceTable& table = kernels::reduce_table(instruction_set());  // the same for every thread
  active_table.store(&table, std::memory_order_release);
  return table;
}

}  // namespace

void reduce(std::byte* dst, std::span<const std::byte* const> sources, std::size_t count, DType dtype, ReduceOp op,
            const ReduceHints& hints) {
  const kernels::ReduceTable* table = active_table.load(std::memory_order_acquire);
  if (table == nullptr) [[unlikely]] {
    find_table();
    return reduce(dst, sources, count, dtype, op, hints);
  }
  kernels::reduce(*table, dst, sources, count, dtype, op, hints);
}

void scale(std::byte* dst, const std::byte* src, std::size_t count, DType dtype, std::complex<double> factor) {
  const kernels::ReduceTable* table = active_table.load(std::memory_order_acquire);
  kernels::scale(table != nullptr ? *table : find_table(), dst, src, count, dtype, factor);
}

}  // namespace customccl
