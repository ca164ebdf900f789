"""`attest synth` as a user runs it; h5py reads the dump."""

import json
import os
import re
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest

from attest_program import ATTEST, attest, run_attest



def synth(folder, *options, expect=0, name="dump.h5"):
    return attest("synth", "-o", folder / name, *options, expect=expect)


def values(dataset):
    """The values as float32, from float16, bfloat16 (which h5py reads as a float type of its own) or float32."""
    return dataset[...].astype(np.float32)


def test_shapes_and_attributes_are_as_asked(tmp_path):
    synth(tmp_path, "--layers", 3, "--samples", 2, "--tokens", 300, "--queries", 5, "--query-heads", 6, "--kv-heads", 3,
          "--head-dim", 96, "--value-dim", 64, "--dtype", "float16", "--scale", 0.1, "--softcap", 50,
          "--sliding-window", 100,
          "--global-every", 3, "--seed", 9)
    with h5py.File(tmp_path / "dump.h5") as dump:
        assert dump.attrs["format"] == "attention-dump" and dump.attrs["format_version"] == 1
        shape = {name: int(dump.attrs[name]) for name in (
            "num_layers", "num_query_heads", "num_kv_heads", "head_dim", "value_dim")}
        assert shape == {"num_layers": 3, "num_query_heads": 6, "num_kv_heads": 3, "head_dim": 96, "value_dim": 64}
        assert dump.attrs["softmax_scale"] == 0.1 and dump.attrs["logit_softcap"] == 50
        source = json.loads(dump.attrs["source"])
        assert source["seed"] == 9 and "local" in source["head_kinds"]
        assert len(dump["samples"]) == 2
        for sample in dump["samples"].values():
            assert sample.attrs["num_tokens"] == 300
            assert sample["query_positions"][...].tolist() == [295, 296, 297, 298, 299]
            assert sample["spans"].shape == (2, 2)
            assert sorted(sample["layers"]) == ["0", "1", "2"]
            for number, layer in sample["layers"].items():
                assert layer["q"].shape == (5, 6, 96) and layer["k"].shape == (3, 300, 96) \
                    and layer["v"].shape == (3, 300, 64)
                assert layer["k"].dtype == np.float16
                assert layer.attrs.get("sliding_window") == (None if number == "2" else 100)
                for tensor in layer.values():
                    assert np.isfinite(values(tensor)).all()


def test_global_layers_take_a_window(tmp_path):
    for words in (["--global-every", 2], ["--preset", "gemma2-9b", "--sliding-window", 0, "--global-every", 3]):
        done = synth(tmp_path, *words, expect=2)
        assert done.stderr == "attest: --global-every: has no effect without a --sliding-window above 0\n"
        assert not any(tmp_path.iterdir())
    synth(tmp_path, "--tokens", 64, "--layers", 1, "--global-every", 0)


def test_retrieval_heads_look_at_the_spans(tmp_path):
    synth(tmp_path, "--element-type", "float32", "--profile", "retrieval", "--tokens", 2000, "--layers", 1)
    with h5py.File(tmp_path / "dump.h5") as dump:
        sample = dump["samples/synthetic-0000"]
        layer = sample["layers/0"]
        for n, position in enumerate(sample["query_positions"]):
            for head in range(8):
                scores = layer["k"][head // 4, : position + 1] @ layer["q"][n, head] / np.sqrt(128)
                weights = np.exp(scores - scores.max())
                mass = sum(weights[begin:end].sum() for begin, end in sample["spans"]) / weights.sum()
                assert mass > 0.5


def test_the_same_command_makes_the_same_bytes_at_any_time(tmp_path):
    synth(tmp_path, "--tokens", 5000, "--threads", 1, name="a.h5")
    time.sleep(1.1)
    synth(tmp_path, "--tokens", 5000, "--threads", 5, name="b.h5")
    synth(tmp_path, "--tokens", 5000, "--seed", 1, name="c.h5")
    a, b, c = ((tmp_path / name).read_bytes() for name in ("a.h5", "b.h5", "c.h5"))
    assert a == b
    assert a != c


def test_defaults_are_those_of_the_help(tmp_path):
    text = run_attest("synth", "--help").stdout
    told = {name: int(re.search(rf"--{name} INT=(\d+)", text)[1]) for name in (
        "layers", "samples", "tokens", "queries", "query-heads", "kv-heads")}
    synth(tmp_path)
    with h5py.File(tmp_path / "dump.h5") as dump:
        (sample,) = dump["samples"].values()
        assert told == {"layers": len(sample["layers"]), "samples": 1, "tokens": sample.attrs["num_tokens"],
                        "queries": len(sample["query_positions"]), "query-heads": dump.attrs["num_query_heads"],
                        "kv-heads": dump.attrs["num_kv_heads"]}


def test_options_win_over_a_preset_wherever_they_stand(tmp_path):
    for options in (["--layers", 1, "--preset", "llama31-8b", "--tokens", 64],
                    ["--preset", "llama31-8b", "--tokens", 64, "--layers", 1]):
        report = json.loads(synth(tmp_path, *options, "--force", "--json", "--quiet").stdout)
        assert report["layers"] == 1
        assert report["bytes"] == 2 * (16 * 32 * 128 + 2 * 8 * 64 * 128)


def test_the_last_line_of_progress_stands_once(tmp_path):
    lines = synth(tmp_path, "--samples", 3, "--tokens", 300).stderr.splitlines()
    assert sum(" in all" in line for line in lines) == 1, lines


def test_values_are_as_wide_as_keys_unless_said_otherwise(tmp_path):
    synth(tmp_path, "--head-dim", 64, "--tokens", 10)
    with h5py.File(tmp_path / "dump.h5") as dump:
        assert dump.attrs["value_dim"] == 64


def test_memory_does_not_grow_with_the_dump(tmp_path):
    def peak_mib(tokens):
        command = [ATTEST, "synth", "-o", tmp_path / f"{tokens}.h5", "--tokens", str(tokens), "--layers", "1",
                   "--threads", "2"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0
        return usage.ru_maxrss / 1024

    assert peak_mib(200_000) < peak_mib(2000) + 40  # 205 MB of values


@pytest.mark.parametrize("options, code, complaint", [
    (["--query-heads", 6, "--kv-heads", 4], 2, "6 query heads are not a multiple of 4 KV heads"),
    (["--tokens", 0], 2, "--tokens: '0' is not a whole number from 1 to 2147483647"),
    (["--queries", 5000], 2, "queries is 5000, expected 1 to 4096"),
    (["--profile", "round"], 2, "round"),
    (["--dtype", "float64"], 2, "float64"),
    (["--preset", "gpt"], 2, "gpt"),
    (["--softcap", -1], 2, "--softcap: '-1' is not a finite number of at least 0"),
])
def test_impossible_options_are_refused(tmp_path, options, code, complaint):
    result = synth(tmp_path, *options, expect=code)
    assert complaint in result.stderr and len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_existing_dump_is_replaced_only_by_force(tmp_path):
    (tmp_path / "dump.h5").write_text("mine")
    result = synth(tmp_path, "--tokens", 10, expect=5)
    assert "dump.h5" in result.stderr and "--force" in result.stderr
    assert (tmp_path / "dump.h5").read_text() == "mine"
    synth(tmp_path, "--tokens", 10, "--force")
    assert h5py.is_hdf5(tmp_path / "dump.h5")
    assert [path.name for path in tmp_path.iterdir()] == ["dump.h5"]


def test_force_replaces_files_only(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    for name, kind in (("pipe", "a pipe"), ("null", "a device")):
        assert f"{name}: expected a file that --force can replace, found {kind}" in synth(
            tmp_path, "--force", expect=5, name=name).stderr
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "null").is_symlink() and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("options", [["--tokens", 2**31 - 1], [
    "--tokens", 2**31 - 1, "--layers", 2**20, "--samples", 2**20, "--head-dim", 2**20]])
def test_what_the_disk_has_no_room_for_is_refused_at_once(tmp_path, options):
    complaint = synth(tmp_path, *options, expect=5).stderr
    assert "dump.h5: needs " in complaint and complaint.endswith("B free\n") and complaint.count("\n") == 1
    assert not any(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_an_output_error(tmp_path):
    assert "cannot be written" in synth(tmp_path / "absent", "--tokens", 10, expect=5).stderr


def test_ctrl_c_leaves_nothing_behind(tmp_path):
    process = subprocess.Popen([ATTEST, "synth", "-o", tmp_path / "dump.h5", "--preset", "llama31-8b"],
                               stderr=subprocess.PIPE, text=True)
    while not any(tmp_path.iterdir()):
        time.sleep(0.01)
        assert process.poll() is None
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in errors.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []
