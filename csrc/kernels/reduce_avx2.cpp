// The loops for AVX2. No fused multiply-add is named, so none can change a result.

#include "kernels/reduce_table.h"

#if defined(CUSTOMCCL_VECTOR_KERNELS)

#include "kernels/make_table.h"
#include "kernels/reduce_loops.h"

namespace customccl::kernels {
namespace {

struct Avx2 {
  template <class Element, class Operation>
  [[gnu::target("avx2,f16c")]]
  static void reduce(std::byte* dst, const std::byte* const* sources, std::size_t n, std::size_t count,
                     const ReduceHints& hints) {
    reduce_loop<InstructionSet::kAvx2, Element, Operation>(dst, sources, n, count, hints);
  }
  template <class Element>
  [[gnu::target("avx2,f16c")]]
  static void scale(std::byte* dst, const std::byte* src, std::size_t count, std::complex<double> factor) {
    scale_loop<InstructionSet::kAvx2, Element>(dst, src, count, factor);
  }
};

}  // namespace

constinit const ReduceTable kAvx2Table = make_table<Avx2>();

}  // namespace customccl::kernels

#endif
