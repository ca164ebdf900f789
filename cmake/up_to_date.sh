# Sourced by ./attest and cmake/build.sh, which set root, preset and torch (--torch, --cluster, --llama-cpp, or empty):
# whether the program of that preset needs no build.
up_to_date() {
  # Rebuild if the checkout was moved or another ATTEST_PYTHON is set: the program contains both paths.
  local built=$root/build/$preset/built
  [ -x "$root/build/$preset/attest" ] && [ -e "$built" ] || return
  [ "$(<"$built")" = "${ATTEST_PYTHON-}"$'\n'"$root" ] || return
  [ -n "${ATTEST_PYTHON-}" ] || [ -e "$root/.venv/bin/python" ] || return
  local packages=$root/.venv/lib/python3*/site-packages # a pattern
  case $torch in
    --torch) [ -e "$root/build/$preset/libanalysis_torch.so" ] || return ;;
    --cluster) [ -n "${ATTEST_PYTHON-}" ] || compgen -G "$packages/submitit" >/dev/null || return ;;
    --llama-cpp) [ -n "${ATTEST_PYTHON-}" ] || compgen -G "$packages/llama_cpp" >/dev/null || return ;;
  esac
  local git=$root/.git
  [ ! -f "$git" ] || read -r _ git <"$git" # in a worktree .git is a file
  [[ $git = /* ]] || git=$root/$git
  # A folder's mtime changes when an entry is added or removed. The Python package is not compiled, but --version says
  # whether these sources (those of write_version.cmake) differ from the commit, which HEAD's log changes with.
  [ -z "$(find "$root"/{dumps,kernels,analysis,experiments,plots,cmake} \
    "$root"/{CMakeLists.txt,CMakePresets.json,requirements.txt} "$git/logs/HEAD" \
    -name __pycache__ -prune -o -newer "$built" -print -quit 2>/dev/null)" ]
}
