#pragma once

namespace customccl::test {

// The n-th allocation that this thread makes from now on by `new` throws, and every later one until disarm(). Counts what is asked for.
void fail_allocations_from(int n);
// How many were asked for since then.
int disarm();
// Not under sanitizers, which have operators of their own.
bool allocations_can_fail();

}  // namespace customccl::test
