#pragma once

#include <string_view>

// How this library was built. The macros come from CMake; a build without it (torch.utils.cpp_extension.load) says so.

#ifndef CUSTOMCCL_VERSION
#define CUSTOMCCL_VERSION "unknown"
#endif
#ifndef CUSTOMCCL_BUILD_TYPE
#define CUSTOMCCL_BUILD_TYPE "not by CMake"
#endif

namespace customccl {

inline constexpr std::string_view kVersion = CUSTOMCCL_VERSION;
inline constexpr std::string_view kBuildType = CUSTOMCCL_BUILD_TYPE;
#if defined(__clang__)
inline constexpr std::string_view kCompiler = __VERSION__;
#else
inline constexpr std::string_view kCompiler = "GCC " __VERSION__;
#endif

}  // namespace customccl
