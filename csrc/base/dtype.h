#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/in_order.h"

// The element types, listed once. Enums, dispatch, bindings, test parameters and docs derive from kDTypes.

namespace customccl {

enum class DType : std::uint8_t {
  kBool,
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kUInt32,
  kInt32,
  kUInt64,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
  kFloat8E4M3FN,
  kFloat8E4M3FNUZ,
  kFloat8E5M2,
  kFloat8E5M2FNUZ,
  kFloat8E8M0FNU,
  kFloat4E2M1FNX2,
};

// Opaque: moved, never reduced (scales and packed values of the microscaling formats).
enum class DTypeKind : std::uint8_t { kBoolean, kInteger, kFloating, kComplex, kOpaque };

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // as torch prints it, without "torch."
  std::uint8_t size;      // bytes per element
  DTypeKind kind;
};

// Hidden, as kOps (op.h).
[[gnu::visibility("hidden")]] inline constexpr std::array kDTypes{
    DTypeInfo{DType::kBool, "bool", 1, DTypeKind::kBoolean},
    DTypeInfo{DType::kUInt8, "uint8", 1, DTypeKind::kInteger},
    DTypeInfo{DType::kInt8, "int8", 1, DTypeKind::kInteger},
    DTypeInfo{DType::kUInt16, "uint16", 2, DTypeKind::kInteger},
    DTypeInfo{DType::kInt16, "int16", 2, DTypeKind::kInteger},
    DTypeInfo{DType::kUInt32, "uint32", 4, DTypeKind::kInteger},
    DTypeInfo{DType::kInt32, "int32", 4, DTypeKind::kInteger},
    DTypeInfo{DType::kUInt64, "uint64", 8, DTypeKind::kInteger},
    DTypeInfo{DType::kInt64, "int64", 8, DTypeKind::kInteger},
    DTypeInfo{DType::kFloat16, "float16", 2, DTypeKind::kFloating},
    DTypeInfo{DType::kBFloat16, "bfloat16", 2, DTypeKind::kFloating},
    DTypeInfo{DType::kFloat32, "float32", 4, DTypeKind::kFloating},
    DTypeInfo{DType::kFloat64, "float64", 8, DTypeKind::kFloating},
    DTypeInfo{DType::kComplex64, "complex64", 8, DTypeKind::kComplex},
    DTypeInfo{DType::kComplex128, "complex128", 16, DTypeKind::kComplex},
    DTypeInfo{DType::kFloat8E4M3FN, "float8_e4m3fn", 1, DTypeKind::kFloating},
    DTypeInfo{DType::kFloat8E4M3FNUZ, "float8_e4m3fnuz", 1, DTypeKind::kFloating},
    DTypeInfo{DType::kFloat8E5M2, "float8_e5m2", 1, DTypeKind::kFloating},
    DTypeInfo{DType::kFloat8E5M2FNUZ, "float8_e5m2fnuz", 1, DTypeKind::kFloating},
    DTypeInfo{DType::kFloat8E8M0FNU, "float8_e8m0fnu", 1, DTypeKind::kOpaque},
    DTypeInfo{DType::kFloat4E2M1FNX2, "float4_e2m1fn_x2", 1, DTypeKind::kOpaque},
};
static_assert(in_order(kDTypes, &DTypeInfo::dtype));

constexpr const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }

// The sizes alone, in one line of memory.
[[gnu::visibility("hidden")]] inline constexpr auto kDTypeSizes = [] {
  std::array<std::uint8_t, kDTypes.size()> sizes{};
  for (const DTypeInfo& type : kDTypes) sizes[static_cast<std::size_t>(type.dtype)] = type.size;
  return sizes;
}();
constexpr std::size_t size_of(DType dtype) { return kDTypeSizes[static_cast<std::size_t>(dtype)]; }
constexpr std::string_view name(DType dtype) { return info(dtype).name; }

}  // namespace customccl
