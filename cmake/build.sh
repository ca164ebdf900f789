#!/usr/bin/env bash
# cmake/build.sh PRESET TARGET [OPTION OF cmake/setup.sh]...: sets up what is missing, configures and builds.
# A lock allows one build at a time per checkout.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
preset=$1 target=$2
shift 2
build=$root/build/$preset
. "$root/cmake/watch.sh"
. "$root/cmake/up_to_date.sh"
demand_writable "$root" "$build"

exec 9>>"$root/build/lock"
if ! flock -n 9; then
  say "waiting for another build in $root/build ..."
  flock 9
  # The ranks of a job begin at the same time: the first one has built for all.
  torch=${1-}
  [[ $target != attest || $# -gt 1 || $torch = --tests ]] || ! up_to_date || exit 0
fi

named_python=${ATTEST_PYTHON-}
# Make the path absolute. Symbolic links are not resolved, because the python of a virtual environment is one.
if [ -n "${ATTEST_PYTHON-}" ]; then
  python=$(command -v "$ATTEST_PYTHON") || { say "ATTEST_PYTHON=$ATTEST_PYTHON: no such interpreter."; exit 1; }
  ATTEST_PYTHON=$(cd "$(dirname "$python")" && pwd)/${python##*/}
fi
export ATTEST_PYTHON=${ATTEST_PYTHON-}

case $preset in
  release | dev) export ATTEST_CUDA=1 ;;
  *) export ATTEST_CUDA=0 ;;
esac
"$root/cmake/setup.sh" "$@"
if [ -x "$root/.venv/bin/cmake" ]; then
  PATH=$root/.venv/bin:$PATH
fi

run() { # run WHAT COMMAND...: a failure prints all that the command said, but for the steps that went well
  local what=$1 log=$build/$1.log
  shift
  watch "$what preset $preset" "$log" "$@" && return
  grep -avE '^\[[0-9]+/[0-9]+\] ' "$log" >&2 || true # a compiler that is killed says nothing
  say "$what failed. Log: $log"
  exit 1
}

# Timestamp from before the build: files edited during the build are newer, and the next call rebuilds them.
touch "$build/started"
cd "$root"
[ -e "$build/build.ninja" ] || say "building preset $preset in build/$preset; this takes minutes, once ..."
fresh= # set if the checkout was moved or copied: its CMake cache then has the old paths
grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt" || fresh=--fresh
if for_another_machine; then
  say "build/$preset was compiled for another processor or GPU; building it anew takes minutes ..."
  fresh=--fresh # the cache has the GPU
fi
native=$(built_native) # kept, also where --fresh drops the cache
if asks_for_another; then
  native=$(native "$ATTEST_NATIVE")
  fresh=--fresh # the cache has the GPU
fi
run configuring cmake --preset "$preset" $fresh ${native:+-D ATTEST_NATIVE=$native}
run building cmake --build --preset "$preset" --target "$target"
machine >"$build/machine"
printf '%s\n%s' "$named_python" "$root" >"$build/built" # read by ./attest
touch -r "$build/started" "$build/built"
