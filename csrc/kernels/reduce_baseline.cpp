// The loops for what every processor of the architecture has (x86-64: SSE2, arm64: NEON).

#include "kernels/make_table.h"
#include "kernels/reduce_loops.h"

namespace customccl::kernels {
namespace {

struct Baseline {
  template <class Element, class Operation>
  static void reduce(std::byte* dst, const std::byte* const* sources, std::size_t n, std::size_t count,
                     const ReduceHints& hints) {
    reduce_loop<InstructionSet::kBaseline, Element, Operation>(dst, sources, n, count, hints);
  }
  template <class Element>
  static void scale(std::byte* dst, const std::byte* src, std::size_t count, std::complex<double> factor) {
    scale_loop<InstructionSet::kBaseline, Element>(dst, src, count, factor);
  }
};

}  // namespace

constinit const ReduceTable kBaselineTable = make_table<Baseline>();

}  // namespace customccl::kernels
