#!/usr/bin/env bash
# cmake/setup.sh [OPTION]...: installs what attest needs and this machine lacks; uses no network if nothing is missing.
# It looks for the header or tool itself, not for its package, so that other ways of installing count too.
#   --tokenizers  also what attest prompts needs: transformers, without torch
#   --torch       also what attest capture, tasks, bench model and the LibTorch peer of the other benches need
#   --tests       also what the tests need; with --torch, all of --lm-eval and --cluster, too
#   --lm-eval     also torch and the lm-evaluation-harness
#   --cluster     also what attest run --dask, --mpi and --slurm need
#   --llama-cpp   also llama-cpp-python, for attest capture of .gguf files, built from its source
#   --vllm        also vLLM's build for CPUs in .venv-vllm, for the tests of its plugin
#   ATTEST_PYTHON=/path/python  an interpreter to use instead of a .venv
#   ATTEST_CUDA=1 or 0          with or without a CUDA compiler; by default with one if there is a GPU
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. cmake/watch.sh
demand_writable "$PWD" "$PWD/build"
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

. cmake/setup_missing.sh

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
    # Progress would be written over a question for the password: sudo asks before.
    has command sudo && { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; } || return 1
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
  [ -z "$tokenizers" ] || has_requirements <(grep '^transformers==' cmake/requirements-torch.txt) ||
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

. cmake/setup_engines.sh

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
