#pragma once

// What differs between the torch versions this shim is compiled for (2.11 to 2.15). Nowhere else may a version be asked.

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace customccl::torch_shim {

#define CUSTOMCCL_TORCH_AT_LEAST(minor) (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))

#if CUSTOMCCL_TORCH_AT_LEAST(13)
using PreMulSum = ::c10d::PreMulSumSupplement;
#else
using PreMulSum = ::c10d::NCCLPreMulSumSupplement;
#endif

}  // namespace customccl::torch_shim

// Whether torch itself keeps a flight record of every backend.
#define CUSTOMCCL_TORCH_RECORDS_EVERY_BACKEND CUSTOMCCL_TORCH_AT_LEAST(15)

// Whether torch asks to be told of every operation that succeeded (c10d::CompletionHook).
#define CUSTOMCCL_TORCH_HAS_COMPLETION_HOOKS CUSTOMCCL_TORCH_AT_LEAST(15)

// torch 2.11 does not ask whether the call is asynchronous. Use where ParamCommsUtils.hpp is included.
#if CUSTOMCCL_TORCH_AT_LEAST(12)
#define CUSTOMCCL_RECORD_PARAM_COMMS(...) RECORD_PARAM_COMMS_DATA_WITH_ASYNC_OP(__VA_ARGS__)
#else
#define CUSTOMCCL_RECORD_PARAM_COMMS(seq, name, inputs, outputs, rank, op, in, out, dtype, in_splits, out_splits,     \
                                     start, stride, size, async)                                                      \
  RECORD_PARAM_COMMS_DATA(seq, name, inputs, outputs, rank, op, in, out, dtype, in_splits, out_splits, start, stride, \
                          size)
#endif

// Virtual functions that the base class has from some torch on: they override there and are plain members before.
#if CUSTOMCCL_TORCH_AT_LEAST(12)
#define CUSTOMCCL_OVERRIDE_SINCE_2_12 override
#else
#define CUSTOMCCL_OVERRIDE_SINCE_2_12
#endif
#if CUSTOMCCL_TORCH_AT_LEAST(14)
#define CUSTOMCCL_OVERRIDE_SINCE_2_14 override
#else
#define CUSTOMCCL_OVERRIDE_SINCE_2_14
#endif
#if CUSTOMCCL_TORCH_AT_LEAST(15)
#define CUSTOMCCL_OVERRIDE_SINCE_2_15 override
#else
#define CUSTOMCCL_OVERRIDE_SINCE_2_15
#endif
