#pragma once

#include <string_view>

// A digest of all headers of the torch-free rooms, made by csrc/CMakeLists.txt. The shims see the classes of libcustomccl.so through
// these headers, so a library with another stamp lays its classes out differently.

#ifndef CUSTOMCCL_BUILD_STAMP
#define CUSTOMCCL_BUILD_STAMP "not by CMake"
#endif

namespace customccl {

// The stamp of the library that is loaded.
std::string_view library_stamp();

}  // namespace customccl
