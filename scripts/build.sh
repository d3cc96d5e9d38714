#!/usr/bin/env bash
# build.sh PYTHON JOBS: build everything, C++ tests included, and have PYTHON's environment use this tree (an editable install).
# CMAKE_ARGS may hold more options for CMake.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
export MAX_JOBS=$2
export CMAKE_ARGS="-DCUSTOMCCL_TESTS=ON ${CMAKE_ARGS:-}"

# Once per environment, and again when what pip records may have changed; otherwise CMake alone brings the libraries up to date.
stamp=build/installed-$(echo "$python" | cksum | cut -d' ' -f1)
wanted=$(cat setup.py pyproject.toml torch_customccl/_version.py | cksum)
if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && (cd / && "$python" -c 'import importlib.metadata as m; m.version("torch_customccl")' 2>/dev/null); then
  "$python" setup.py -q build_ext --inplace
else
  "$python" -m pip install --disable-pip-version-check --no-build-isolation --no-deps -q -e .
  mkdir -p build
  echo "$wanted" >"$stamp"
fi
