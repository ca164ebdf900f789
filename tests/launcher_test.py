"""./attest builds when something has changed, and only then; it passes all arguments on.

Each test has its own checkout, in which a stub replaces the build and the program.
"""

import os
import re
import resource
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from attest_program import attest

ROOT = Path(__file__).resolve().parent.parent
# The preset that this machine gets by default.
PRESET = "release" if any(os.path.exists(device) for device in ("/dev/nvidiactl", "/dev/dxg")) else "cpu"
FOLDERS = ["dumps", "kernels/attention", "analysis", "experiments/cli/parse", "experiments/python/attest/__pycache__",
           "experiments/python/attest/base", "plots", "cmake"]
FILES = ["CMakeLists.txt", "CMakePresets.json", "requirements.txt", "kernels/README.md", "kernels/attention/scores.cpp",
         "experiments/python/attest/run.py", "experiments/python/attest/__pycache__/run.pyc", ".git/logs/HEAD"]

BUILD = r"""#!/usr/bin/env bash
root=$(dirname "$(dirname "$0")")
echo "$*" >>"$root/builds"
[ ! -e "$root/broken" ] || exit 1
mkdir -p "$root/build/$1"
printf '#!/bin/sh\npwd; for a; do echo "<$a>"; done; exit 3\n' >"$root/build/$1/attest"
chmod +x "$root/build/$1/attest"
printf '%s\n%s' "$ATTEST_PYTHON" "$root" >"$root/build/$1/built"
[ "${3-}" != --torch ] || touch "$root/build/$1/libanalysis_torch.so"
"""


@pytest.fixture
def checkout(tmp_path):
    root = tmp_path / "checkout with space"
    for folder in [*FOLDERS, ".git/logs", ".venv/bin"]:
        (root / folder).mkdir(parents=True)
    for file in [*FILES, ".venv/bin/python"]:
        (root / file).write_text("x")
    (root / "cmake/build.sh").write_text(BUILD)
    (root / "cmake/build.sh").chmod(0o755)
    shutil.copy(ROOT / "attest", root / "attest")
    for script in "choose_preset.sh", "up_to_date.sh":
        shutil.copy(ROOT / "cmake" / script, root / "cmake")
    for path in [*root.rglob("*"), root]:
        os.utime(path, (1e9, 1e9))
    return root


def call(program, *arguments, cwd="/", **environment):
    variables = {k: v for k, v in os.environ.items() if not k.startswith("ATTEST_")} | environment
    return subprocess.run([program, *arguments], cwd=cwd, env=variables, capture_output=True, text=True)


def builds(root):
    return (root / "builds").read_text().splitlines()


def test_becomes_the_program_in_the_callers_directory(checkout, tmp_path):
    result = call(checkout / "attest", "run", "a b", "", cwd=tmp_path)
    assert result.stdout.splitlines() == [str(tmp_path), "<run>", "<a b>", "<>"]
    assert result.returncode == 3


def test_works_through_links(checkout, tmp_path):
    (tmp_path / "link").symlink_to(checkout / "attest")
    (tmp_path / "second").symlink_to("link")
    assert call(tmp_path / "second", "list").stdout.endswith("<list>\n")


def test_a_second_call_builds_nothing(checkout):
    call(checkout / "attest")
    call(checkout / "attest")
    assert builds(checkout) == [f"{PRESET} attest"]


def edit(root):
    (root / "kernels/attention/scores.cpp").write_text("y")


def edit_python(root):
    """It is not compiled, but --version tells of it."""
    (root / "experiments/python/attest/run.py").write_text("y")


def add_old_file(root):
    (root / "experiments/cli/parse/new.cpp").write_text("y")
    os.utime(root / "experiments/cli/parse/new.cpp", (1e9, 1e9))


def remove(root):
    (root / "kernels/attention/scores.cpp").unlink()


def commit(root):
    (root / ".git/logs/HEAD").write_text("y")


def lose_venv(root):
    (root / ".venv/bin/python").unlink()


def lose_program(root):
    (root / f"build/{PRESET}/attest").unlink()


@pytest.mark.parametrize("change", [edit, edit_python, add_old_file, remove, commit, lose_venv, lose_program])
def test_a_change_is_built(checkout, change):
    call(checkout / "attest")
    time.sleep(0.02)  # more than one tick of the file system's clock
    change(checkout)
    call(checkout / "attest")
    assert len(builds(checkout)) == 2


def write_bytecode(root):
    """Also that of a package which had none."""
    for package in "attest", "attest/base":
        (root / f"experiments/python/{package}/__pycache__").mkdir(exist_ok=True)
        (root / f"experiments/python/{package}/__pycache__/run.pyc").write_text("y")


def edit_document(root):
    (root / "kernels/README.md").write_text("y")


@pytest.mark.parametrize("change", [write_bytecode, edit_document])
def test_nothing_is_built_for_what_is_no_source(checkout, change):
    call(checkout / "attest")
    time.sleep(0.02)
    change(checkout)
    call(checkout / "attest")
    assert len(builds(checkout)) == 1


@pytest.mark.parametrize("is_relative", [False, True])
def test_a_commit_in_a_worktree_is_built(checkout, tmp_path, is_relative):
    """A relative folder, as `git worktree add --relative-paths` and submodules have it, is relative to the checkout."""
    shutil.move(checkout / ".git", tmp_path / "elsewhere")
    (checkout / ".git").write_text(f"gitdir: {'..' if is_relative else tmp_path}/elsewhere\n")
    call(checkout / "attest")
    time.sleep(0.02)
    (tmp_path / "elsewhere/logs/HEAD").write_text("y")
    call(checkout / "attest")
    assert len(builds(checkout)) == 2


def test_another_interpreter_is_built(checkout):
    for python in ["", "/usr/bin/python3", "/usr/bin/python3"]:
        call(checkout / "attest", ATTEST_PYTHON=python)
    assert len(builds(checkout)) == 2


def test_a_moved_checkout_is_built(checkout):
    call(checkout / "attest")
    moved = checkout.rename(checkout.with_name("moved"))
    call(moved / "attest")
    assert len(builds(moved)) == 2


def test_without_cuda_is_another_build(checkout):
    call(checkout / "attest", ATTEST_CUDA="1")
    call(checkout / "attest", ATTEST_CUDA="0")
    assert builds(checkout) == ["release attest", "cpu attest"]


@pytest.mark.parametrize("value, preset", [
    ("0", "cpu"), ("OFF", "cpu"), ("Off", "cpu"), ("NO", "cpu"), ("False", "cpu"), ("1", "release"), ("ON", "release")])
def test_what_cmake_takes_for_off_is_a_build_without_cuda(checkout, value, preset):
    found = call("bash", "-uc", ". cmake/choose_preset.sh; echo $preset", cwd=checkout, ATTEST_CUDA=value)
    assert found.stdout == f"{preset}\n"


@pytest.mark.parametrize("command, needs", [
    ("capture m", True), ("tasks --model=m", True), ("bench study", True), ("bench kernel", True),
    ("bench model", True), ("run d.h5", False),
    ("--version", False), ("bench", False), ("bench stdy", False), ("tasks", False), ("capture", False),
    ("prompts", False)])
def test_torch_is_brought_by_the_first_command_that_takes_it(checkout, command, needs):
    """Not by one that can only say its usage."""
    call(checkout / "attest", "list")
    call(checkout / "attest", *command.split())
    call(checkout / "attest", *command.split())
    assert builds(checkout) == [f"{PRESET} attest"] + ([f"{PRESET} attest --torch"] if needs else [])


@pytest.mark.parametrize("arguments, needs", [
    (["--json", "tasks", "-o", "t"], "--torch"), (["--quiet", "capture", "m"], "--torch"),
    (["--quiet", "capture", "m.gguf"], "--llama-cpp"), (["capture", "--last", "4", "m.gguf"], "--llama-cpp"),
    (["capture", "m", "p.jsonl", "--model-name", "x.gguf"], "--torch"),
    (["prompts", "--context", "1K", "bytes"], ""), (["prompts", "m", "-o", "bytes"], "--tokenizers"),
    (["--device", "cuda", "run", "d.h5", "--dask", "local:2"], "--cluster"),
    (["--device=cuda", "--seed", "3", "bench", "study"], "--torch"),
    (["--config", "run", "--threads", "2", "--device-memory", "50%", "prompts", "-o", "p"], "--tokenizers"),
    (["--config", "tasks", "list"], ""),
    (["--seed", "capture"], ""), (["--seed"], ""), (["--json", "tasks", "--help"], "")])
def test_what_a_command_takes_is_found_between_its_options(checkout, arguments, needs):
    result = call(checkout / "attest", *arguments)
    assert result.stdout.splitlines()[1:] == [f"<{word}>" for word in arguments]
    assert builds(checkout) == [f"{PRESET} attest {needs}".strip()]


def test_the_common_options_that_take_a_value_are_known():
    """The launcher cannot ask the program, which may not be there."""
    text = attest("--help").stdout
    known, = re.findall(r"^ +(--.*)\) shift ;;$", (ROOT / "attest").read_text(), re.MULTILINE)
    assert sorted(known.split(" | ")) == sorted(re.findall(
        r"^  (--[a-z-]+) [A-Z]", text.partition("Subcommands:")[0], re.MULTILINE))


@pytest.mark.parametrize("arguments", [["bench", "study", "--no-peer"], ["capture", "--help"], ["bench", "-h"]])
def test_commands_that_can_do_without_torch(checkout, arguments):
    call(checkout / "attest", *arguments)
    assert builds(checkout) == [f"{PRESET} attest"]


def test_a_failed_build_does_not_run_an_older_program(checkout):
    call(checkout / "attest")
    time.sleep(0.02)
    edit(checkout)
    (checkout / "broken").touch()
    result = call(checkout / "attest")
    assert result.returncode == 1
    assert result.stdout == ""


def test_a_second_call_adds_less_than_50_ms_of_a_processor(checkout):
    call(checkout / "attest")

    def seconds(program):
        """Of a processor, so that other programs on the machine change little."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        call(program)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    direct = min(seconds(checkout / f"build/{PRESET}/attest") for _ in range(5))
    assert min(seconds(checkout / "attest") for _ in range(5)) - direct < 0.05


def test_a_checkout_that_cannot_be_written_runs_what_was_built_there(checkout):
    """Also where that was compiled for another processor."""
    call(checkout / "attest")
    (checkout / f"build/{PRESET}/machine").write_text("model name : another\n")
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" || exit 77; "$0/../attest" list'
    done = call("unshare", "--map-root-user", "--mount", "bash", "-c", script, checkout / "build")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no file system can be mounted here")
    assert done.returncode == 3 and len(builds(checkout)) == 1, done.stderr


@pytest.mark.parametrize("program, folder", [
    ("attest", f"build/{PRESET}"), ("tests/run", f"build/{PRESET}"), ("cmake/setup.sh", "build")])
def test_a_checkout_that_cannot_be_written_is_said_to_be(checkout, program, folder):
    for path in "cmake/build.sh", "cmake/setup.sh", "cmake/watch.sh", "tests/run":
        (checkout / path).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / path, checkout / path)
    (checkout / "build").write_text("no folder can be made here, not even by root")
    result = call(checkout / program, *(["--vllm"] if folder == "build" else ["list"]))
    assert result.returncode == 5
    assert result.stderr == (f"attest: {checkout}/{folder} cannot be written, so nothing can be built there: "
                             f"make {checkout}/build writable, or build in a copy of the checkout\n")


def test_packages_of_clusters_are_brought_by_the_first_command_that_takes_one(checkout):
    call(checkout / "attest", "run", "d.h5", WORLD_SIZE="2")
    for options in ["--dask", "local:2"], ["--mpi"], ["--slurm=jobs=2"]:
        call(checkout / "attest", "run", "d.h5", *options)
    (checkout / ".venv/lib/python3.11/site-packages/submitit").mkdir(parents=True)
    call(checkout / "attest", "run", "d.h5", "--dask=local:2")
    assert builds(checkout) == [f"{PRESET} attest", *[f"{PRESET} attest --cluster"] * 3]


def test_a_gguf_file_brings_llama_cpp_and_not_torch(checkout):
    call(checkout / "attest", "capture", "m.gguf", "p.jsonl", "-o", "d.h5")
    (checkout / ".venv/lib/python3.11/site-packages/llama_cpp").mkdir(parents=True)
    call(checkout / "attest", "capture", "m.gguf", "p.jsonl", "-o", "d.h5")
    assert builds(checkout) == [f"{PRESET} attest --llama-cpp"]


def test_prompts_take_no_torch(checkout):
    for tokenizer in "bytes", "m":
        call(checkout / "attest", "prompts", tokenizer, "-o", "p.jsonl")
    (checkout / ".venv/lib/python3.11/site-packages/transformers").mkdir(parents=True)
    call(checkout / "attest", "prompts", "m", "-o", "p.jsonl")
    assert builds(checkout) == [f"{PRESET} attest", f"{PRESET} attest --tokenizers"]


CMAKE = r"""#!/usr/bin/env bash
root=$(dirname "$(dirname "$(dirname "$0")")")
echo "$*" >>"$root/cmake_calls"
sleep 0.3
for preset in cpu release; do
  mkdir -p "$root/build/$preset"
  printf '#!/bin/sh\nexit 3\n' >"$root/build/$preset/attest"
  chmod +x "$root/build/$preset/attest"
  cache=$root/build/$preset/CMakeCache.txt
  [[ "$*" != *--fresh* ]] || rm -f "$cache"
  echo "CMAKE_HOME_DIRECTORY:INTERNAL=$root" >>"$cache"
  [[ ! "$*" =~ (ATTEST_NATIVE)=([A-Z]+) ]] || echo "${BASH_REMATCH[1]}:BOOL=${BASH_REMATCH[2]}" >>"$cache"
done
"""


def build_with_a_stub_of_cmake(checkout):
    for script in "build.sh", "watch.sh":
        shutil.copy(ROOT / "cmake" / script, checkout / "cmake")
    (checkout / "cmake/setup.sh").write_text("#!/bin/sh\n")
    (checkout / ".venv/bin/cmake").write_text(CMAKE)
    for program in "cmake/setup.sh", ".venv/bin/cmake":
        (checkout / program).chmod(0o755)


def test_a_program_for_another_processor_is_built_anew(checkout):
    build_with_a_stub_of_cmake(checkout)
    call(checkout / "attest", ATTEST_CUDA="1")
    call(checkout / "attest", ATTEST_CUDA="1")
    machine = checkout / "build/release/machine"
    ours = machine.read_text()
    machine.write_text("model name : another\n")
    assert "build/release was compiled for another processor or GPU" in call(
        checkout / "attest", ATTEST_CUDA="1").stderr
    assert machine.read_text() == ours
    call(checkout / "attest", ATTEST_CUDA="1")
    calls = (checkout / "cmake_calls").read_text().splitlines()
    assert len(calls) == 4 and "--fresh" in calls[2], calls


def configurations(checkout):
    """What CMake was asked for, but for the builds."""
    return [line for line in (checkout / "cmake_calls").read_text().splitlines() if "--build" not in line]


def test_a_build_for_all_processors_stays_one(checkout):
    """Also where CMake's cache is dropped, because the checkout was moved."""
    build_with_a_stub_of_cmake(checkout)
    call(checkout / "attest", ATTEST_NATIVE="off")
    call(checkout / "attest", ATTEST_NATIVE="off")
    moved = checkout.rename(checkout.with_name("moved"))
    for native in {}, {}, {"ATTEST_NATIVE": "1"}, {"ATTEST_NATIVE": "ON"}:
        call(moved / "attest", **native)
    assert configurations(moved) == [
        f"--preset {PRESET} --fresh -D ATTEST_NATIVE={native}" for native in ("OFF", "OFF", "ON")]


def test_a_preset_has_its_own_default(checkout):
    """As dev, which compiles for all processors."""
    build_with_a_stub_of_cmake(checkout)
    call(checkout / "cmake/build.sh", "dev", "attest")
    assert configurations(checkout) == ["--preset dev --fresh"]


@pytest.mark.parametrize("before, now, cache, differs", [
    ("A", "A", "", False), ("A", "B", "", True), ("A\nGPU 1", "A\nGPU 1", "", False),
    ("A\nGPU 1", "A\nGPU 2", "", True),
    ("A", "A\nGPU 1", "", False), ("A\nGPU 1", "A", "", False), (None, "A", "", False),
    ("A", "B", "ATTEST_NATIVE:BOOL=OFF\n", False)])
def test_which_machine_needs_a_build_of_its_own(checkout, before, now, cache, differs):
    """A build that was made where there is no GPU has code for all of them, and ATTEST_NATIVE=OFF for all
    processors."""
    folder = checkout / "build/release"
    folder.mkdir(parents=True)
    (folder / "CMakeCache.txt").write_text(cache)
    if before:
        (folder / "machine").write_text(before + "\n")
    script = f'root=$PWD preset=release; . cmake/up_to_date.sh; machine() {{ echo "{now}"; }}; for_another_machine'
    assert (call("bash", "-c", script, cwd=checkout).returncode == 0) == differs


def test_calls_at_the_same_time_build_once(checkout):
    build_with_a_stub_of_cmake(checkout)
    variables = {k: v for k, v in os.environ.items() if not k.startswith("ATTEST_")}
    ranks = [subprocess.Popen([checkout / "attest", "list"], env=variables, stderr=subprocess.PIPE, text=True)
             for _ in range(4)]
    assert [rank.communicate(timeout=30)[1] is not None and rank.returncode for rank in ranks] == [3] * 4
    assert len((checkout / "cmake_calls").read_text().splitlines()) == 2, "configure and build"
