#!/usr/bin/env bash
# sanitize.sh PYTHON SANITIZERS JOBS: build the torch-free part and test/cpp under SANITIZERS and run the tests.
# A fourth argument, build-only: run none.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake=$("$1" scripts/tool_path.py cmake)
ninja=$("$1" scripts/tool_path.py ninja)
folder=build/sanitize-${2//,/-}  # a comma would split linker options

"$cmake" -S . -B "$folder" -G Ninja -DCMAKE_MAKE_PROGRAM="$ninja" -DSANITIZE="$2" --log-level=WARNING
"$cmake" --build "$folder" --parallel "$3"
[ "${4:-}" != build-only ] || exit 0
# The newest kernels place the heap where the thread sanitizer wants its shadow: without random addresses it never happens.
run=()
leave_out=()
if [ "$2" = thread ]; then
  # Groups of 6 and 7 ranks would take a quarter of the time, to meet as those of 2 to 5 and of 8 do.
  leave_out=(--exclude-regex "Process|Fork|Ranks/Collectives.*/[56]$")
  if setarch --addr-no-randomize true 2>/dev/null; then run=(setarch --addr-no-randomize); fi
fi
# Ranks of a test wait for each other, under the thread sanitizer half of the time: four tests for each processor.
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1" UBSAN_OPTIONS="print_stacktrace=1"
"${run[@]}" "$(dirname "$cmake")/ctest" --test-dir "$folder" --parallel "$((4 * $3))" "${leave_out[@]}" --output-on-failure --no-tests=error
