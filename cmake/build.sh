#!/usr/bin/env bash
# cmake/build.sh PRESET TARGET [--tests]: sets up what is missing, configures, builds; one at a time in a checkout.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
preset=$1 target=$2
build=$root/build/$preset
mkdir -p "$build"

say() { printf 'attest: %s\n' "$*" >&2; }

exec 9>"$root/build/lock"
if ! flock -n 9; then
  say "waiting for another build in $root/build ..."
  flock 9
fi

named_python=${ATTEST_PYTHON-}
# A path that holds whatever the working directory; links stay, since a virtual environment's python is one.
if [ -n "${ATTEST_PYTHON-}" ]; then
  python=$(command -v "$ATTEST_PYTHON") || { say "ATTEST_PYTHON=$ATTEST_PYTHON: no such interpreter."; exit 1; }
  ATTEST_PYTHON=$(cd "$(dirname "$python")" && pwd)/${python##*/}
fi
export ATTEST_PYTHON=${ATTEST_PYTHON-}

"$root/cmake/setup.sh" ${3-}
if [ -x "$root/.venv/bin/cmake" ]; then
  PATH=$root/.venv/bin:$PATH
fi

run() { # run WHAT COMMAND...: its output goes to the log, and to a terminal if it is a build
  local what=$1 log=$build/$1.log started=$SECONDS
  shift
  if [ "$what" = building ] && [ -t 2 ]; then
    "$@" >&2 || exit 1
  elif ! "$@" >"$log" 2>&1; then
    grep -E -A5 'FAILED|[Ee]rror' "$log" | head -n 40 >&2
    say "$what failed. Log: $log"
    exit 1
  fi
  [ $((SECONDS - started)) -lt 5 ] || say "$what preset $preset took $((SECONDS - started)) s"
}

# Taken before the build: what is edited while it runs is newer, and built by the next call.
touch "$build/started"
cd "$root"
[ -e "$build/build.ninja" ] || say "building preset $preset in build/$preset; this takes minutes, once ..."
fresh= # for a checkout that was moved or copied, whose cache names other paths
grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt" || fresh=--fresh
run configuring cmake --preset "$preset" $fresh
run building cmake --build --preset "$preset" --target "$target"
printf '%s\n%s' "$named_python" "$root" >"$build/built" # what ./attest compares
touch -r "$build/started" "$build/built"
