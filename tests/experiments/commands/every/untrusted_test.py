"""Small files that ask for much, and names that a terminal would obey, through the commands."""
import json
import os
import resource
import signal
import subprocess
import zlib

import h5py
import numpy as np
import pytest

from attest_program import ATTEST
import results_maker


def attest(folder, *arguments, **options):
    return subprocess.run([ATTEST, *arguments], cwd=folder, capture_output=True, timeout=120, **options)


def write_dump(path, tokens, heads=1, sample="a", compressed=False):
    """k and v in gzip chunks of zeros if `compressed`."""
    with h5py.File(path, "w") as file:
        file.attrs.update(format="attention-dump", format_version=1, model="m", num_layers=1, num_query_heads=heads,
                          num_kv_heads=1, head_dim=16)
        group = file.create_group(f"samples/{sample}")
        group.attrs.update(task="t", num_tokens=tokens)
        group["query_positions"] = np.array([tokens - 1])
        layer = group.create_group("layers/0")
        layer.create_dataset("q", data=np.ones((1, heads, 16), np.float16), chunks=(1, heads, 16), compression=9)
        for name in "kv":
            if not compressed:
                layer[name] = np.ones((1, tokens, 16), np.float16)
                continue
            rows = 1 << 19
            values = layer.create_dataset(name, (1, tokens, 16), np.float16, chunks=(1, rows, 16), compression=9)
            chunk = zlib.compress(bytes(rows * 32), 9)
            for first in range(0, tokens, rows):
                values.id.write_direct_chunk((0, first, 0), chunk)


def test_a_compressed_dump_says_what_it_needs(tmp_path):
    write_dump(tmp_path / "d.h5", 80_000_000, compressed=True)
    assert (tmp_path / "d.h5").stat().st_size < 8e6
    for command in (["inspect", "d.h5", "--check", "--json"],
                    ["run", "d.h5", "-o", "r.h5", "--selector", "quest", "--quiet"]):
        done = attest(tmp_path, *command)
        assert done.returncode == 4 and done.stderr.count(b"\n") == 1, done.stderr
        assert done.stderr.startswith(b"attest: d.h5: /samples/a/layers/0: takes 4.8 GiB of memory, the file has "), \
            done.stderr
        assert done.stderr.endswith(b" on disk; --allow-memory 5GiB allows it\n"), done.stderr
    assert attest(tmp_path, "inspect", "d.h5").returncode == 0
    assert not (tmp_path / "r.h5").exists() and not (tmp_path / "r.h5.partial").exists()


def test_a_compressed_results_file_is_no_larger_in_memory_than_on_disk(tmp_path):
    """A small file that says it holds 2 GiB of recall."""
    write_dump(tmp_path / "d.h5", 64)
    assert attest(tmp_path, "run", "d.h5", "-o", "r.h5", "--selector", "ffd", "--delta", "5", "--quiet").returncode == 0
    heads, queries = 1 << 14, 1 << 15
    with h5py.File(tmp_path / "r.h5", "r+") as file:
        file["dumps/0"].attrs["num_query_heads"] = heads
        sample = file["dumps/0/samples/a"]
        for group in (sample["scores"], sample["ffd"]):
            for name in list(group):
                if name not in ("settings", "setting_labels", "lambdas", "dense", "done"):
                    del group[name]
        del sample["query_positions"]
        sample["query_positions"] = np.arange(queries)
        sample.attrs["num_tokens"] = queries
        recall = sample["ffd"].create_dataset("recall", (1, queries, heads, 1), np.float32, chunks=(1, 64, heads, 1),
                                              compression=9)
        chunk = zlib.compress(bytes(64 * heads * 4), 9)
        for first in range(0, queries, 64):
            recall.id.write_direct_chunk((0, first, 0, 0), chunk)
    assert (tmp_path / "r.h5").stat().st_size < 4e6
    for command in (["inspect", "r.h5", "--check"], ["figures", "r.h5", "-o", "f"], ["claims", "r.h5"]):
        done = attest(tmp_path, *command)
        assert done.returncode == 4 and done.stderr.count(b"\n") == 1, done.stderr
        assert b"r.h5: /dumps/0/samples/a/ffd/recall: takes 2.0 GiB of memory, the file has " in done.stderr, \
            done.stderr
        assert done.stderr.endswith(b" on disk; expected at most 256.0 MiB\n"), done.stderr


def test_the_results_count_too(tmp_path):
    write_dump(tmp_path / "d.h5", 16, heads=1 << 19)
    grid = ["--selector", "quest", "--budget", "1:8:1"]
    done = attest(tmp_path, "run", "d.h5", "-o", "r.h5", *grid, "--allow-memory", "64MiB")
    assert done.returncode == 4 and b"/samples/a/layers/0: takes " in done.stderr, done.stderr
    assert attest(tmp_path, "inspect", "d.h5", "--check", "--allow-memory", "64MiB").returncode == 0
    without = attest(tmp_path, "inspect", "d.h5", "--allow-memory", "64MiB")
    assert without.returncode == 2 and "--allow-memory has no effect without --check" in str(without.stderr)


def test_names_are_printed_on_one_line(tmp_path):
    name = "a\x1b[31m\nfake\u202e\u009b"
    write_dump(tmp_path / "d.h5", 16, sample=name)
    with h5py.File(tmp_path / "d.h5", "r+") as file:
        file[f"samples/{name}/layers/0/k"][0, 3] = np.nan
        file.attrs["model"] = np.bytes_(b"m\xff\x1b")
    for command in (["inspect", "d.h5", "--check"], ["run", "d.h5", "-o", "r.h5", "--selector", "quest"],
                    ["run", "d.h5", "-o", "r.h5", "--resume", "--skip-bad-layers", "--selector", "quest"]):
        done = attest(tmp_path, *command)
        assert b"a\\x1b[31m\\x0afake\\u202e\\u009b" in done.stdout + done.stderr, done
        assert b"\x1b" not in done.stdout + done.stderr, done
        (done.stdout + done.stderr).decode("utf-8")
    for command in (["inspect", "d.h5"], ["figures", "r.h5", "-o", "figures"]):
        done = attest(tmp_path, *command, "--json")
        if done.returncode == 0:
            json.loads(done.stdout.decode("utf-8"))
        else:
            assert done.returncode == 4 and done.stderr.count(b"\n") == 1, done


@pytest.mark.parametrize("form", ["text", "csv", "md", "latex", "json"])
def test_tables_and_json_show_what_a_terminal_would_obey(form, tmp_path):
    name = "m\u202e\u2066\u0085\u200b\U000e0041\x1b[31m"
    write_dump(tmp_path / "d.h5", 300)
    assert attest(tmp_path, "run", "d.h5", "-o", "r.h5", "--selector", "ffd:dense_layers=0", "--delta", "5",
                  "--quiet").returncode == 0
    with h5py.File(tmp_path / "r.h5", "r+") as file:
        file["dumps/0"].attrs["model"] = file["dumps/0/samples/a"].attrs["task"] = name
    for command in (["table", "r.h5", "--by", "model,task", "--format", form],
                    ["table", "r.h5", "--by", "task", "--format", form, "-o", "t"],
                    ["inspect", "r.h5", *(["--json"] if form == "json" else [])]):
        done = attest(tmp_path, *command)
        assert done.returncode == 0, done.stderr
        shown = done.stdout.decode() + ((tmp_path / "t").read_text() if "t" in command else "")
        assert not set(name) - set("m[31") & set(shown), shown
        if form == "json" and "t" not in command:
            assert json.dumps(name)[1:-1] in json.dumps(json.loads(shown))
        elif "t" not in command:
            assert "202e" in shown


def damage_global_heap(path):
    """HDF5 1.10 takes the size of the heap's first object from the file, and loops."""
    data = bytearray(path.read_bytes())
    at = data.index(b"GCOL")
    data[at + 24:at + 32] = at.to_bytes(8, "little")
    path.write_bytes(data)


def test_what_hdf5_loops_on_is_refused_by_the_clock(tmp_path):
    write_dump(tmp_path / "d.h5", 16)
    damage_global_heap(tmp_path / "d.h5")
    os.truncate(tmp_path / "d.h5", 600_000_000)  # sparse: the limit follows what is on the disk
    for command in (["inspect", "d.h5"], ["run", "d.h5", "-o", "r.h5", "--selector", "quest"]):
        before = os.times()
        done = attest(tmp_path, *command)
        after = os.times()
        assert (done.returncode, done.stderr) == \
            (4, b"attest: d.h5: /: the file is damaged, HDF5 was still busy with it after 2 s\n")
        assert after.children_user + after.children_system - before.children_user - before.children_system < 10
    assert not (tmp_path / "r.h5").exists()


def test_a_parent_that_ignores_its_children_changes_nothing(tmp_path):
    """Nobody would then tell how the process that reads the file ended."""
    write_dump(tmp_path / "d.h5", 16)
    (tmp_path / "bad.h5").write_bytes((tmp_path / "d.h5").read_bytes()[:3000])
    for name, code in (("d.h5", 0), ("bad.h5", 4)):
        done = subprocess.run([ATTEST, "inspect", name, "--quiet"], cwd=tmp_path, capture_output=True, timeout=60,
                              preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        assert done.returncode == code, done.stderr


def test_compressed_estimates_have_the_bound_of_dumps(tmp_path):
    write_dump(tmp_path / "d.h5", 4096, heads=64)
    with h5py.File(tmp_path / "e.h5", "w") as file:
        file.create_dataset("samples/a/layers/0/e", data=np.zeros((1, 64, 4096)), compression=9)
    command = ["run", "d.h5", "-o", "r.h5", "--quiet", "--selector", "imported:file=e.h5,dataset=e", "--budget", "8",
               "--allow-memory"]
    done = attest(tmp_path, *command, "1MiB")
    assert done.returncode == 4 and done.stderr.startswith(
        b"attest: e.h5: /samples/a/layers/0/e: takes 2.0 MiB of memory, the file has "), done
    assert done.stderr.endswith(b" on disk; --allow-memory 1GiB allows it\n") \
        and not (tmp_path / "r.h5.partial").exists()
    assert attest(tmp_path, *command, "4MiB").returncode == 0


def test_what_stands_in_the_place_of_results_is_said(tmp_path):
    write_dump(tmp_path / "d.h5", 300)
    command = ["run", "d.h5", "-o", "r.h5", "--quiet", "--selector", "quest", "--resume"]
    for content, found in (((tmp_path / "d.h5").read_bytes(),
                            b"/: attribute 'format' is 'attention-dump', expected 'attention-study' (this is a dump, "
                            b"for `attest run`)"),
                           (b"notes", b"is not an HDF5 file, it has no HDF5 signature")):
        (tmp_path / "r.h5").write_bytes(content)
        done = attest(tmp_path, *command)
        assert done.returncode == 4 and done.stderr == b"attest: cannot resume: r.h5: " + found + b"\n", done.stderr
        assert (tmp_path / "r.h5").read_bytes() == content
    assert attest(tmp_path, *command, "--force").returncode == 0


def test_options_that_are_no_json_object_or_too_deep_are_refused(tmp_path):
    """Comparing or printing values so deep takes more than this stack."""
    deep = '{"x": ' + "[" * 28000 + "]" * 28000 + "}"
    results_maker.write_results(tmp_path / "r.h5", [results_maker.ffd("a"), results_maker.ffd("b", gqa="per_head")])
    for text in (deep, "{", "[]"):
        with h5py.File(tmp_path / "r.h5", "r+") as file:
            for sample in file["dumps/0/samples"].values():
                for label in "ab":
                    sample[label].attrs["options"] = text
        small = lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20))
        said = attest(tmp_path, "figures", "r.h5", "-o", "f", "--only", "headwise,error_bound", "--format", "svg",
                      "--force", preexec_fn=small)
        assert said.returncode == 4, said.stderr
        assert b"/a: attribute 'options' is '" in said.stderr and b"expected a JSON object" in said.stderr
        assert not (tmp_path / "f").exists()
