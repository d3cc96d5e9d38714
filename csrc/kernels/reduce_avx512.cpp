// The loops for AVX-512 as every server processor since 2017 has it (F, BW, DQ, VL).

#include "kernels/reduce_table.h"

#if defined(CUSTOMCCL_VECTOR_KERNELS)

#include "kernels/make_table.h"
#include "kernels/reduce_loops.h"

namespace customccl::kernels {
namespace {

struct Avx512 {
  template <class Element, class Operation>
  [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,f16c")]]
  static void reduce(std::byte* dst, const std::byte* const* sources, std::size_t n, std::size_t count,
                     const ReduceHints& hints) {
    reduce_loop<InstructionSet::kAvx512, Element, Operation>(dst, sources, n, count, hints);
  }
  template <class Element>
  [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,f16c")]]
  static void scale(std::byte* dst, const std::byte* src, std::size_t count, std::complex<double> factor) {
    scale_loop<InstructionSet::kAvx512, Element>(dst, src, count, factor);
  }
};

}  // namespace

constinit const ReduceTable kAvx512Table = make_table<Avx512>();

}  // namespace customccl::kernels

#endif
