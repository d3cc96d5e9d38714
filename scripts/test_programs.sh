#!/usr/bin/env bash
# The programs that single tests start, and no build needs: a browser, two MPIs, pkg-config, ip. CI runs it first; a test without its
# program is skipped elsewhere, and fails on CI (test/python/harness/installed.py).
set -euo pipefail

declare -A packages=(
  [chromium]=chromium [mpirun.openmpi]=openmpi-bin [mpirun.mpich]=mpich [pkg-config]=pkg-config [ip]=iproute2
)
lacking=()
for program in "${!packages[@]}"; do
  command -v "$program" >/dev/null || lacking+=("${packages[$program]}")
done
[ ${#lacking[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "Missing for some tests: ${lacking[*]}. Debian, Ubuntu: sudo apt-get install ${lacking[*]}" >&2
  exit 1
fi
echo "installing for the tests: ${lacking[*]}" >&2
apt-get -qq -o Acquire::Retries=3 update
DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Acquire::Retries=3 --no-install-recommends install "${lacking[@]}" >/dev/null
