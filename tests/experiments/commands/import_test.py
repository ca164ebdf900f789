"""`attest import` as a user runs it: NumPy and the safetensors library write, h5py reads the dump."""

import json
import os
import signal
import struct
import subprocess
import time
import zipfile

import h5py
import numpy as np
import pytest

from attest_program import ATTEST, attest, run_attest

HQ, HKV, T, N, D, DV = 4, 2, 50, 3, 8, 6


def run(source, *options, expect=0):
    target = source.parent / "out" / "dump.h5"
    target.parent.mkdir(exist_ok=True)
    result = attest("import", source, "-o", target, *options, expect=expect)
    if expect:
        assert len(result.stderr.splitlines()) == 1
        assert list(target.parent.iterdir()) == []
        return result.stderr
    return h5py.File(target)


def tensors(seed=0, dtype=np.float32):
    """q [Hq, N, D], k [Hkv, T, D], v [Hkv, T, Dv]."""
    random = np.random.default_rng(seed)
    return {"q": random.normal(size=(HQ, N, D)).astype(dtype), "k": random.normal(size=(HKV, T, D)).astype(dtype),
            "v": random.normal(size=(HKV, T, DV)).astype(dtype)}


def layers_of(count, **options):
    return {f"layers.{layer}.{role}": array for layer in range(count)
            for role, array in tensors(layer, **options).items()}


def assert_layer(layer, expected):
    np.testing.assert_array_equal(layer["q"][...], expected["q"].transpose(1, 0, 2))
    np.testing.assert_array_equal(layer["k"][...], expected["k"])
    np.testing.assert_array_equal(layer["v"][...], expected["v"])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npz(tmp_path, save, dtype, order):
    save(tmp_path / "a.npz",
         **{name: np.asarray(array, order=order) for name, array in layers_of(2, dtype=dtype).items()})
    with run(tmp_path / "a.npz", "--model", "my model", "--task", "mine") as dump:
        assert dump.attrs["model"] == "my model"
        sample = dump["samples/sample"]
        assert sample.attrs["task"] == "mine" and sample.attrs["num_tokens"] == T
        assert sample["query_positions"][...].tolist() == [47, 48, 49]
        assert sample["layers/0/k"].dtype == dtype
        for number in range(2):
            assert_layer(sample[f"layers/{number}"], tensors(number, dtype))


def test_bfloat16_of_torch_through_safetensors(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file
    saved = {name: torch.from_numpy(array).to(torch.bfloat16) for name, array in layers_of(3).items()}
    save_file(saved, tmp_path / "a.safetensors", metadata={"format": "pt"})
    with run(tmp_path / "a.safetensors") as dump:
        for number in range(3):
            layer = dump[f"samples/sample/layers/{number}"]
            assert_layer({role: tensor[...].astype(np.float32) for role, tensor in layer.items()},
                         {role: saved[f"layers.{number}.{role}"].float().numpy() for role in "qkv"})


def test_bits_of_bfloat16_in_npz(tmp_path):
    arrays = {name: (array.view(np.uint32) >> 16).astype(np.uint16) for name, array in tensors().items()}
    np.savez(tmp_path / "a.npz", **arrays)
    assert "--bfloat16-bits" in run(tmp_path / "a.npz", expect=4)
    with run(tmp_path / "a.npz", "--bfloat16-bits") as dump:
        layer = dump["samples/sample/layers/0"]
        assert_layer({role: tensor[...].astype(np.float32) for role, tensor in layer.items()},
                     {name: (bits.astype(np.uint32) << 16).view(np.float32) for name, bits in arrays.items()})


def test_a_sharded_folder_with_batches_and_a_token_first_layout(tmp_path):
    from safetensors.numpy import save_file
    folder = tmp_path / "model"
    folder.mkdir()
    weight_map = {}
    for layer in range(2):
        batch = [tensors(10 * layer + b) for b in range(2)]
        shard = {
            f"model.layers.{layer}.self_attn.{role}": np.ascontiguousarray([b[role].transpose(1, 0, 2) for b in batch])
            for role in "qkv"}
        save_file(shard, folder / f"shard-{layer}.safetensors")
        weight_map |= {name: f"shard-{layer}.safetensors" for name in shard}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with run(folder, "--layout", "THD") as dump:
        assert sorted(dump["samples"]) == ["sample-0", "sample-1"]
        for b in range(2):
            for layer in range(2):
                assert_layer(dump[f"samples/sample-{b}/layers/{layer}"], tensors(10 * layer + b))


def test_patterns_name_samples_and_layers(tmp_path):
    arrays = {f"{sample}|attn{layer}:{role}": array for sample in ("niah", "qa") for layer in (3, 11)
              for role, array in tensors(layer + len(sample)).items()}
    np.savez(tmp_path / "a.npz", **arrays)
    with run(tmp_path / "a.npz", "--q", "{s}|attn{l}:q", "--k", "{s}|attn{l}:k", "--v", "{s}|attn{l}:v", "--num-layers",
             20,
             "--positions", "7,9,40", "--span", "1:3,10:20", "--scale", 0.5, "--sliding-window", 16, "--window-layers",
             11) as dump:
        assert dump.attrs["num_layers"] == 20 and dump.attrs["softmax_scale"] == 0.5
        assert sorted(dump["samples"]) == ["niah", "qa"]
        assert dump["samples/qa/query_positions"][...].tolist() == [7, 9, 40]
        assert dump["samples/qa/spans"][...].tolist() == [[1, 3], [10, 20]]
        assert "sliding_window" not in dump["samples/qa/layers/3"].attrs
        assert dump["samples/qa/layers/11"].attrs["sliding_window"] == 16
        assert_layer(dump["samples/niah/layers/11"], tensors(15))


def test_inspect_finds_the_import_sound(tmp_path):
    np.savez(tmp_path / "a.npz", **layers_of(2))
    run(tmp_path / "a.npz").close()
    attest("inspect", "--check", tmp_path / "out" / "dump.h5")


def test_json_tells_what_was_written(tmp_path):
    np.savez(tmp_path / "a.npz", **layers_of(2))
    result = run_attest("--json", "--quiet", "import", tmp_path / "a.npz", "-o", tmp_path / "d.h5")
    report = json.loads(result.stdout)
    assert (report["samples"], report["layers"], report["head_dim"], report["value_dim"]) == (1, 2, D, DV)
    assert report["bytes"] == 2 * 4 * (N * HQ * D + HKV * T * (D + DV))
    assert result.stderr == ""


def refused(tmp_path, complaint, *options, expect=4, **arrays):
    np.savez(tmp_path / "bad.npz", **arrays)
    error = run(tmp_path / "bad.npz", *options, expect=expect)
    assert complaint in error, error


def test_what_makes_no_dump_is_refused(tmp_path):
    refused(tmp_path, "found '<f8' (convert it to float32 first)", **tensors(dtype=np.float64))
    refused(tmp_path, "found '>f4'", **tensors(dtype=">f4"))
    refused(tmp_path, "expected float32 as in 'q', found float16",
            **(tensors() | {"v": tensors(dtype=np.float16)["v"]}))
    refused(tmp_path, "found 'q', 'keys', 'v' (--q, --k and --v name them)", q=tensors()["q"], keys=tensors()["k"],
            v=tensors()["v"])
    refused(tmp_path, "expected 50 tokens as in k, found 49", **(tensors() | {"v": tensors()["v"][:, 1:]}))
    refused(tmp_path, "name pattern 'x{y}'", "--q", "x{y}", "--k", "k", "--v", "v", expect=2, **tensors())
    refused(tmp_path, "--span: '7' is not BEGIN:END", "--span", "7", expect=2, **tensors())
    refused(tmp_path, "layout 'ABC'", "--layout", "ABC", expect=2, **tensors())


@pytest.mark.parametrize("option, value, name, shown", [("--scale", "1e-320", "softmax_scale", "9.99989e-321"),
                                                       ("--scale", "1e39", "softmax_scale", "1e+39"),
                                                       ("--softcap", "1e-39", "logit_softcap", "1e-39"),
                                                       ("--softcap", "1e39", "logit_softcap", "1e+39")])
def test_numbers_that_float32_does_not_hold_are_refused_as_synth_does(option, value, name, shown, tmp_path):
    np.savez(tmp_path / "a.npz", **tensors())
    said = run(tmp_path / "a.npz", option, value, expect=2)
    assert f"/: attribute '{name}' is {shown}, expected a number that float32 holds, 1.2e-38 to 3.4e+38\n" in said
    synth = run_attest("synth", "-o", tmp_path / "out" / "dump.h5", "--tokens", "8", "--queries", "1", option, value)
    assert (synth.returncode, synth.stderr) == (2, said)


@pytest.mark.parametrize("value", ["1.1754944e-38", "3.4028234e38"])
def test_the_least_and_the_largest_number_of_float32_can_be_read(value, tmp_path):
    np.savez(tmp_path / "a.npz", **tensors())
    run(tmp_path / "a.npz", "--scale", value, "--softcap", value).close()
    attest("inspect", tmp_path / "out" / "dump.h5")


def test_options_that_would_have_no_effect_are_refused(tmp_path):
    for options, complaint in ((["--window-layers", "1,5", "--sliding-window", 8],
                                "has no layer 5, expected some of its layers (0, 1)"),
                               (["--window-layers", "0"],
                                "--window-layers: has no effect without a --sliding-window above 0"),
                               (["--last", 3],
                                "--last: is for a folder of FlashInfer's flight recorder, of arrays as in "),
                               (["--bfloat16-bits"],
                                "bad.npz: expected arrays of 16-bit integers, or NumPy's V2, found '<f4'"),
                               (["--num-layers", 0], "--num-layers: '0' is not a whole number from 1 to 1048576"),
                               (["--rope", "5"], "--rope: expected a JSON object, found '5'"),
                               (["--rope", "{"], "--rope: expected a JSON object, found '{'")):
        refused(tmp_path, complaint, *options, expect=2, **layers_of(2))
    refused(tmp_path, "(0, 1, 2, 3, 4, 5, 6, 7, ...)", "--window-layers", 9, "--sliding-window", 8, expect=2,
            **layers_of(9))


def test_files_that_are_none_or_damaged_are_refused(tmp_path):
    (tmp_path / "text").write_text("hello, world")
    assert "expected safetensors or npz, found neither" in run(tmp_path / "text", expect=4)
    assert "No such file" in run(tmp_path / "absent", expect=4)
    np.savez(tmp_path / "a.npz", **tensors())
    whole = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    assert "cut.npz: zip archive: expected its end record, found none" in run(tmp_path / "cut.npz", expect=4)
    flipped = bytearray(whole)
    flipped[500] ^= 1
    (tmp_path / "flipped.npz").write_bytes(flipped)
    assert "checksum" in run(tmp_path / "flipped.npz", expect=4)


def test_an_existing_dump_is_replaced_only_by_force(tmp_path):
    np.savez(tmp_path / "a.npz", **tensors())
    target = tmp_path / "d.h5"
    target.write_text("mine")
    command = [ATTEST, "import", tmp_path / "a.npz", "-o", target]
    assert subprocess.run(command, capture_output=True).returncode == 5
    assert target.read_text() == "mine"
    assert subprocess.run([*command, "--force"], capture_output=True).returncode == 0
    assert h5py.is_hdf5(target)


def sparse_safetensors(path, **shapes):
    """A file of float16 zeros that is sparse: it takes no space on the disk."""
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * int(np.prod(shape))
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return path


@pytest.mark.parametrize("kind", ["safetensors", "deflated"])
def test_memory_does_not_grow_with_the_number_of_layers(kind, tmp_path):
    def peak_megabytes(num_layers):
        shapes = {f"layers.{layer}.{role}": [4, 1 if role == "q" else 8192, 128]
                  for layer in range(num_layers) for role in "qkv"}  # 16 MB per layer
        source = tmp_path / "a.npz"
        if kind == "safetensors":
            sparse_safetensors(source, **shapes)
        else:
            np.savez_compressed(source, **{name: np.zeros(shape, np.float16) for name, shape in shapes.items()})
        process = subprocess.Popen([ATTEST, "--quiet", "import", source, "-o", tmp_path / "d.h5", "--force"],
                                   stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        assert status == 0
        return usage.ru_maxrss / 1024

    few, many = peak_megabytes(2), peak_megabytes(16)
    assert many < few + 16, (few, many)


def test_an_interrupt_leaves_nothing(tmp_path):
    source = sparse_safetensors(tmp_path / "a.safetensors", q=[8, 1, 128], k=[8, 1 << 17, 128], v=[8, 1 << 17, 128])
    target = tmp_path / "out" / "dump.h5"
    target.parent.mkdir()
    for number in 3 * (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen([ATTEST, "import", source, "-o", target], stderr=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        while not list(target.parent.iterdir()):
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(process.pid, number)
        error = process.communicate(timeout=60)[1]
        assert process.returncode == 130 and list(target.parent.iterdir()) == []
        assert error.splitlines()[-1] == "attest: interrupted, nothing was written; run the command again to start over"
        assert "Traceback" not in error


def test_a_full_disk_leaves_nothing(tmp_path):
    """Runs in a process that may not write files beyond 64 KiB."""
    np.savez(tmp_path / "a.npz", **{name: np.zeros((4, 1000, 8), np.float32) for name in "qkv"})
    command = f"ulimit -f 64; trap '' XFSZ; exec {ATTEST} --quiet import {tmp_path}/a.npz -o {tmp_path}/d.h5"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 5 and done.stderr == f"attest: {tmp_path}/d.h5: cannot be written (File too large)\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_progress_is_lines_where_stderr_is_no_terminal(tmp_path):
    np.savez(tmp_path / "a.npz", **tensors())
    done = run_attest("import", tmp_path / "a.npz", "-o", tmp_path / "d.h5")
    assert done.stderr.splitlines()[-1].startswith("0 of 0 MB") and "\033" not in done.stderr
    assert "1 sample(s), 1 layer(s) in all, 4 query and 2 KV heads of 8 channels (values 6)" in done.stdout
    assert "sample 'sample': 50 tokens, 3 query position(s) 47 .. 49" in done.stdout


def test_paths_need_be_no_utf_8(tmp_path):
    source, target = os.fsencode(tmp_path) + b"/a\xff.npz", os.fsencode(tmp_path) + b"/d\xff.h5"
    np.savez(tmp_path / "a.npz", **tensors())
    os.rename(tmp_path / "a.npz", source)
    # as in other locales
    for variables in {"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}, {"PYTHONIOENCODING": "utf-8:strict"}:
        done = subprocess.run([ATTEST, "import", source, "-o", target, "--force", "--model", "größe"],
                              capture_output=True, env={**os.environ, **variables})
        assert done.returncode == 0 and done.stdout.startswith(os.fsencode(tmp_path) + b"/d\\udcff.h5: 1 sample(s)")
        with h5py.File(target) as dump:
            assert dump.attrs["model"] == "größe"
    done = subprocess.run([ATTEST, "--json", "import", source, "-o", target, "--force"], capture_output=True)
    assert json.loads(done.stdout)["path"] == f"{tmp_path}/d\ufffd.h5"
    done = subprocess.run([ATTEST, "import", source, "-o", target, "--force", "--model", b"\xff"], capture_output=True)
    assert done.returncode == 2 and done.stderr == b"attest: --model: expected UTF-8 text, found '\\udcff'\n"
    done = subprocess.run([ATTEST, "import", source, "-o", target, "--force", "--rope", "{theta"], capture_output=True)
    assert done.returncode == 2 and done.stderr == b"attest: --rope: expected a JSON object, found '{theta'\n"


def test_options_may_come_from_a_file(tmp_path):
    np.savez(tmp_path / "a.npz", **tensors())
    (tmp_path / "a.toml").write_text(
        '[import]\nspan = ["1:3", "4:5"]\npositions = [1, 2, 40]\nscale = 0.5\nmodel = "m"\n')
    with run(tmp_path / "a.npz", "--config", tmp_path / "a.toml") as dump:
        assert dump.attrs["model"] == "m" and dump.attrs["softmax_scale"] == 0.5
        assert dump["samples/sample/query_positions"][:].tolist() == [1, 2, 40]
        assert dump["samples/sample/spans"][:].tolist() == [[1, 3], [4, 5]]


def test_a_standard_output_that_is_full_is_said(tmp_path):
    np.savez(tmp_path / "a.npz", **tensors())
    with open("/dev/full", "w") as full:
        done = subprocess.run([ATTEST, "--quiet", "import", tmp_path / "a.npz", "-o", tmp_path / "d.h5"], stdout=full,
                              stderr=subprocess.PIPE, text=True)
    assert done.returncode == 5 and done.stderr == "attest: cannot write to standard output\n"


# ---- hostile files

def seconds_of(path, complaint):
    began = time.monotonic()
    assert complaint in run(path, expect=4)
    return time.monotonic() - began


def test_members_that_share_their_bytes_are_refused(tmp_path):
    """48 members that are one deflated array of 64 MB: a file of 64 KB would become 3 GB if each were read."""
    names = [f"layers.{layer}.{role}.npy" for layer in range(16) for role in "qkv"]
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open(names[0], "w") as member:
            np.lib.format.write_array(member, np.zeros((1, 1 << 18, 128), np.float16))
        for name in names[1:]:
            info = zipfile.ZipInfo(name)
            first = archive.infolist()[0]
            for field in ("header_offset", "compress_size", "file_size", "CRC", "compress_type", "flag_bits"):
                setattr(info, field, getattr(first, field))
            archive.filelist.append(info)
        archive._didModify = True
    assert seconds_of(tmp_path / "a.npz", "expected members that do not overlap, found 'layers.0.k.npy' and") < 10


def test_a_header_of_80_000_empty_tensors_is_no_work(tmp_path):
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    text = json.dumps({f"layer.{i}.attn.q": empty for i in range(80_000)}).encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    assert seconds_of(tmp_path / "a.safetensors", "and 79996 more") < 10  # takes a second on an idle machine


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    for source in (tmp_path / "pipe.npz", tmp_path):
        assert f"{tmp_path}/pipe.npz: expected a file, found a pipe" in run(source, expect=4)


def test_names_from_a_file_do_not_reach_the_terminal_raw(tmp_path):
    np.savez(tmp_path / "a.npz", **{f"a\x1b[2J\n/{role}": array for role, array in tensors().items()})
    (tmp_path / "out").mkdir()
    done = run_attest("import", tmp_path / "a.npz", "-o", tmp_path / "out/d.h5")
    assert done.returncode == 0 and "sample 'a\\x1b[2J\\x0a': 50 tokens" in done.stdout


def test_json_gives_a_terminal_nothing_to_obey(tmp_path):
    np.savez(tmp_path / "a.npz", **tensors())
    name = "d\u202e\x7f.h5"
    done = run_attest("--json", "import", "a.npz", "-o", name, cwd=tmp_path)
    assert "\\u202e\\u007f" in done.stdout and all(c.isprintable() or c == "\n" for c in done.stdout)
    assert json.loads(done.stdout)["path"] == name
