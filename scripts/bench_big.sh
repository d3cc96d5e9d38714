#!/usr/bin/env bash
# bench_big.sh PYTHON JOBS: builds the two libraries without tests, then measures 2 to 16 ranks and writes a report of that.
# For a machine that is lent for minutes: no .venv, no system packages, no installation. PYTHON is one with torch, cmake, ninja and
# rich; empty: .venv's if there is one, else python3. Peers that cannot be fetched here are named in the report; what was unpacked
# elsewhere (build/benchmarks/peers, by `python -m benchmarks install`) can be brought along.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-}
[ -n "$python" ] || python=$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)
"$python" -c 'import matplotlib, rich, setuptools, torch' || {
  echo "bench-big: $python lacks one of torch, setuptools, rich, matplotlib: make bench-big PYTHON=..." >&2
  exit 1
}
export MAX_JOBS=$2
timeout 120 "$python" -m benchmarks install &
"$python" setup.py -q build_ext --inplace
wait $! || echo "bench-big: some peers were not fetched in time" >&2
"$python" -m benchmarks run --big --out results/big
"$python" -m benchmarks report --out results/big/performance.md "$(ls -t results/big/*-big.json | head -n 1)"
