#!/usr/bin/env bash
# Everything a build needs on this machine. `make` runs it first; when there is nothing to do it takes a moment.
#
#   set_up.sh TORCH            make .venv with torch==TORCH and requirements-dev.txt
#   set_up.sh TORCH PYTHON     use the environment of PYTHON and its torch; only add the tools it lacks
#   set_up.sh --system         only what apt has to bring for the first of these
#
# System packages are installed with apt when we are root; otherwise one sentence says which and how, and we stop.
set -euo pipefail
cd "$(dirname "$0")/.."
torch=$1
python=${2:-}

say() { echo "set-up: $*" >&2; }
stop() { say "$*"; exit 1; }

has_gtest() { printf '#include <gtest/gtest.h>\n' | g++ -std=c++20 -fsyntax-only -x c++ - 2>/dev/null; }
has_python_headers() {
  "$1" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))'
}
# A person sees pip's progress; a log does not want it.
quiet=-qq
if [ -t 1 ]; then quiet=; fi
apt_updated=
need() { # need WHAT PACKAGE...: the system lacks WHAT
  local what=$1
  shift
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing $* ($what)"
    [ -n "$apt_updated" ] || apt-get -qq update
    apt_updated=yes
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@" >/dev/null
  else
    stop "$what is missing. Install it (Debian, Ubuntu: sudo apt-get install $*) and run make again."
  fi
}

system_packages() { # system_packages PYTHON
  command -v g++ >/dev/null || need "the C++ compiler g++" g++
  [ "$(g++ -dumpversion | cut -d. -f1)" -ge 11 ] || stop "g++ $(g++ -dumpversion) is too old: C++20 needs g++ 11 or later."
  has_gtest || need "GoogleTest (gtest/gtest.h)" libgtest-dev
  has_python_headers "$1" || need "Python.h for $1" python3-dev
  has_python_headers "$1" || stop "Python.h for $1 is missing; python3-dev did not bring it: install the headers of that Python."
}

check_version() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || stop "$("$1" --version) is too old: Python 3.10 or later is needed."
}

system_for_venv() {
  command -v python3 >/dev/null || need "Python 3" python3
  check_version python3
  python3 -c 'import ensurepip, venv' 2>/dev/null || need "the venv module of Python" python3-venv
  system_packages python3
}

make_venv() {
  system_for_venv
  local stamp=.venv/customccl-set-up wanted
  wanted="torch==$torch $(cksum <requirements-dev.txt)"
  [ "$(cat $stamp 2>/dev/null)" != "$wanted" ] || return 0
  say "making .venv with torch $torch and the tools (once; a minute or two)"
  python3 -m venv .venv
  # --no-compile: half of the time; Python compiles what is imported, which is little of it.
  .venv/bin/python -m pip install $quiet --no-compile --disable-pip-version-check "torch==$torch" -r requirements-dev.txt
  echo "$wanted" >$stamp
}

add_tools() { # into an environment that is not ours: what is there stays as it is, torch above all
  command -v "$python" >/dev/null || stop "PYTHON=$python is no command."
  check_version "$python"
  system_packages "$python"
  "$python" -c 'import torch' 2>/dev/null || stop "$python has no torch: install one there, or leave PYTHON= out to get a .venv with torch $torch."
  local lacking
  lacking=$("$python" scripts/lacking_tools.py requirements-dev.txt)
  [ -n "$lacking" ] || return 0
  say "adding to the environment of $python: $(echo $lacking)"
  local kept
  kept=$(mktemp)
  "$python" -m pip freeze --exclude-editable | grep -v ' @ ' >"$kept"
  echo "$lacking" | "$python" -m pip install $quiet --disable-pip-version-check -c "$kept" -r /dev/stdin
  rm -f "$kept"
}

if [ "$torch" = --system ]; then system_for_venv; elif [ -n "$python" ]; then add_tools; else make_venv; fi
