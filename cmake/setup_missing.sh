# Sourced by setup.sh, whose options and paths it reads: what this machine lacks, and how that is said.

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
