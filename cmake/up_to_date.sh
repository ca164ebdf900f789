# Sourced by ./attest and cmake/build.sh, which set root, preset and torch (an option of setup.sh, or empty):
# whether the program of that preset needs no build, and whether it was compiled for another machine.
machine() { # what a build is compiled for: a line of the processor, and one of each kind of GPU
  grep -m1 -E '^(model name|CPU part)' /proc/cpuinfo || echo unknown
  [ "$preset" = cpu ] || grep -hs '^Model:' /proc/driver/nvidia/gpus/*/information | sort -u || true
}

native() { # native VALUE: ON or OFF, as CMake takes ATTEST_NATIVE; of no value, nothing
  case ${1,,} in
    "") ;;
    0 | off | no | false) echo OFF ;;
    *) echo ON ;;
  esac
}

built_native() { native "$(sed -n 's/^ATTEST_NATIVE:BOOL=//p' "$root/build/$preset/CMakeCache.txt" 2>/dev/null)"; }

asks_for_another() { # whether ATTEST_NATIVE asks for another build than the one that is there
  [ -n "${ATTEST_NATIVE-}" ] && [ "$(native "$ATTEST_NATIVE")" != "$(built_native)" ]
}

for_another_machine() { # whether the program was compiled for another processor or GPU, and can be compiled anew
  local recorded=$root/build/$preset/machine before now
  [ -w "$recorded" ] || return
  [ "$(built_native)" != OFF ] || return
  before=$(<"$recorded") now=$(machine)
  [ "${before%%$'\n'*}" = "${now%%$'\n'*}" ] || return 0
  # A build that was made where there is no GPU has code for all.
  [[ $before = *$'\n'* && $now = *$'\n'* && $before != "$now" ]]
}

up_to_date() {
  # Rebuild if the checkout was moved or another ATTEST_PYTHON is set: the program contains both paths.
  local built=$root/build/$preset/built
  [ -x "$root/build/$preset/attest" ] && [ -e "$built" ] || return
  [ "$(<"$built")" = "${ATTEST_PYTHON-}"$'\n'"$root" ] || return
  ! for_another_machine && ! asks_for_another || return
  [ -n "${ATTEST_PYTHON-}" ] || [ -e "$root/.venv/bin/python" ] || return
  local packages=$root/.venv/lib/python3*/site-packages # a pattern
  case $torch in
    --torch) [ -e "$root/build/$preset/libanalysis_torch.so" ] || return ;;
    --tokenizers) [ -n "${ATTEST_PYTHON-}" ] || compgen -G "$packages/transformers" >/dev/null || return ;;
    --cluster) [ -n "${ATTEST_PYTHON-}" ] || compgen -G "$packages/submitit" >/dev/null || return ;;
    --llama-cpp) [ -n "${ATTEST_PYTHON-}" ] || compgen -G "$packages/llama_cpp" >/dev/null || return ;;
  esac
  local git=$root/.git
  [ ! -f "$git" ] || read -r _ git <"$git" # in a worktree .git is a file
  [[ $git = /* ]] || git=$root/$git
  # A folder's mtime changes when an entry is added or removed, in the Python package also by its bytecode. That package
  # is not compiled, but --version says whether these sources (those of write_version.cmake) differ from the commit,
  # which HEAD's log changes with.
  [ -z "$(find "$root"/{dumps,kernels,analysis,experiments,plots,cmake} \
    "$root"/{CMakeLists.txt,CMakePresets.json,requirements.txt} "$git/logs/HEAD" \
    -name __pycache__ -prune -o ! -name '*.md' ! \( -type d -path '*/experiments/python/*' \) \
    -newer "$built" -print -quit 2>/dev/null)" ]
}
