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

// Virtual functions that the base class has from some torch on: they override there and are plain members before.
#if CUSTOMCCL_TORCH_AT_LEAST(12)
#define CUSTOMCCL_OVERRIDE_SINCE_2_12 override
#else
#define CUSTOMCCL_OVERRIDE_SINCE_2_12
#endif
