"""imported on the real executable: estimates from a file, the files that are refused, and the documents' worked
example."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from attest_program import ATTEST
import dump_maker
from near import FLOAT32, assert_near

ROOT = Path(os.environ["ATTEST_SOURCE_DIR"])
HEADS, KV_HEADS, DIM, TOKENS, POSITIONS, LAYERS, BLOCK = 4, 2, 16, 200, (130, 199), (0, 3), 64
BLOCKS = -(-TOKENS // BLOCK)


@pytest.fixture
def dump(tmp_path):
    return write_dump(tmp_path / "dump.h5")


def write_dump(path, samples=("s", "t")):
    def values(random, _):
        q = random.standard_normal((len(POSITIONS), HEADS, DIM))
        k, v = random.standard_normal((2, KV_HEADS, TOKENS, DIM))
        return q.astype(np.float32), k.astype(np.float32), v.astype(np.float32)

    dump_maker.write_dump(path, values, seed=5, layers=LAYERS, tokens=TOKENS, heads=HEADS, kv_heads=KV_HEADS, dim=DIM,
                          positions=POSITIONS, samples=samples)
    return path


def write_estimates(path, shape=(len(POSITIONS), HEADS, TOKENS), dtype=np.float32, change=None, samples=("s", "t"),
                    **storage):
    """Random estimates; change(array, sample, layer) alters them. Returns what was written, by (sample, layer)."""
    random, written = np.random.default_rng(11), {}
    with h5py.File(path, "w") as file:
        for sample in samples:
            for layer in LAYERS:
                values = random.standard_normal(shape).astype(dtype)
                if change is not None:
                    change(values, sample, layer)
                file.create_dataset(f"samples/{sample}/layers/{layer}/e", data=values, **storage)
                written[sample, layer] = values
    return written


def selector(file, options=""):
    return f"own=imported:file={file},dataset=e{options}"


def attest_run(dump, out, *arguments):
    command = [ATTEST, "run", dump, "-o", out, "--device", "cpu", *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


def result(out, sample, metric):
    with h5py.File(out) as file:
        return file[f"dumps/0/samples/{sample}/own/{metric}"][()]


# ---- what is read


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("heads", [HEADS, KV_HEADS])
def test_tokens_of_a_budget_are_the_best_ones(dump, tmp_path, dtype, heads):
    written = write_estimates(tmp_path / "own.h5", (len(POSITIONS), heads, TOKENS), dtype)
    done = attest_run(dump, tmp_path / "r.h5", "--selector", selector(tmp_path / "own.h5"), "--budget", "20")
    assert done.returncode == 0, done.stderr
    for (sample, layer), values in written.items():
        mass = result(tmp_path / "r.h5", sample, "mass_recall")[LAYERS.index(layer), ..., 0]
        with h5py.File(dump) as file:
            group = file[f"samples/{sample}/layers/{layer}"]
            q, k = group["q"][()].astype(float), group["k"][()].astype(float)
        for n, position in enumerate(POSITIONS):
            for h in range(HEADS):
                scores = k[h * KV_HEADS // HEADS, : position + 1] @ q[n, h] / np.sqrt(DIM)
                weights = np.exp(scores - scores.max())
                best = np.argsort(-values[n, h * heads // HEADS, : position + 1].astype(float), kind="stable")[:20]
                assert_near(mass[n, h], weights[best].sum() / weights.sum(), rel=FLOAT32)


@pytest.mark.parametrize("storage", [dict(chunks=(1, 2, 50)), dict(
    chunks=(2, 4, 64), compression="gzip", shuffle=True)])
def test_how_values_are_stored_does_not_matter(dump, tmp_path, storage):
    write_estimates(tmp_path / "plain.h5")
    write_estimates(tmp_path / "stored.h5", **storage)
    for name in ("plain", "stored"):
        done = attest_run(dump, tmp_path / f"{name}-r.h5", "--selector", selector(tmp_path / f"{name}.h5"))
        assert done.returncode == 0, done.stderr
    for metric in ("recall", "spearman", "keep_ratio"):
        assert np.array_equal(result(tmp_path / "plain-r.h5", "s", metric),
                              result(tmp_path / "stored-r.h5", "s", metric))


def test_samples_layers_and_queries_that_are_not_studied_need_no_estimates(dump, tmp_path):
    write_estimates(tmp_path / "own.h5", samples=("t",))
    with h5py.File(tmp_path / "own.h5", "r+") as file:
        del file["samples/t/layers/0"]
    done = attest_run(dump, tmp_path / "r.h5", "--samples", "t", "--layers", "3", "--selector",
                      selector(tmp_path / "own.h5"))
    assert done.returncode == 0, done.stderr


def test_a_query_alone_has_its_own_estimates(dump, tmp_path):
    write_estimates(tmp_path / "own.h5")
    for name, queries in [("all", "all"), ("one", "199")]:
        done = attest_run(dump, tmp_path / f"{name}.h5", "--queries", queries, "--selector",
                          selector(tmp_path / "own.h5"))
        assert done.returncode == 0, done.stderr
    for metric in ("mass_recall", "spearman"):
        both, one = (result(tmp_path / f"{name}.h5", "s", metric) for name in ("all", "one"))
        assert np.array_equal(both[:, 1:], one) and not np.array_equal(both[:, :1], one)


def test_blocks_under_a_window_count_from_token_0(dump, tmp_path):
    def change(values, sample, layer):
        values[...] = np.arange(BLOCKS)
        values[..., 1] = 99

    with h5py.File(dump, "r+") as file:
        for sample in ("s", "t"):
            for layer in LAYERS:
                # the query at 199 sees 100 .. 199
                file[f"samples/{sample}/layers/{layer}"].attrs["sliding_window"] = 100
    write_estimates(tmp_path / "own.h5", (len(POSITIONS), HEADS, BLOCKS), change=change)
    options = f",granularity=block,block={BLOCK}"
    done = attest_run(dump, tmp_path / "r.h5", "--selector", selector(tmp_path / "own.h5", options), "--budget", "64")
    assert done.returncode == 0, done.stderr
    # Block 1 is 64 .. 127: of the query at 199, 28 tokens; the query at 130 sees 31 .. 130.
    keep = result(tmp_path / "r.h5", "s", "keep_ratio")[0, :, 0, 0]
    assert_near(keep, [0.64, 0.28], rel=FLOAT32)


# ---- keys and values of one's own


def write_replacements(path, dump, noise=0.1, dtype=np.float32, change=None):
    """k_hat and v_hat: the dump's with noise, and estimates e. Returns {(sample, layer): (k_hat, v_hat, e)}."""
    random, written = np.random.default_rng(4), {}
    with h5py.File(dump) as exact, h5py.File(path, "w") as file:
        for sample in ("s", "t"):
            for layer in LAYERS:
                group = exact[f"samples/{sample}/layers/{layer}"]
                k, v = ((group[x][()] + noise * random.standard_normal(group[x].shape)).astype(dtype) for x in "kv")
                e = random.standard_normal((len(POSITIONS), HEADS, TOKENS)).astype(np.float32)
                if change:
                    change(k, v)
                own = file.create_group(f"samples/{sample}/layers/{layer}")
                own["k_hat"], own["v_hat"], own["e"] = k, v, e
                written[sample, layer] = k.astype(np.float32), v.astype(np.float32), e
    return written


def attend(q, k, v, kept):
    """(output, log-sum-exp) over the kept tokens, in double."""
    scores = k[kept].astype(float) @ q.astype(float) / np.sqrt(DIM)
    peak = scores.max()
    weights = np.exp(scores - peak)
    return weights @ v[kept].astype(float) / weights.sum(), peak + np.log(weights.sum())


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("options, own_keys, own_values", [
    ("rule=all,keys=k_hat,values=v_hat", True, True), ("rule=all,keys=k_hat", True, False),
    ("rule=all,values=v_hat", False, True),
    ("dataset=e,keys=k_hat,values=v_hat", True, True), ("dataset=e,values=v_hat", False, True),
    ("rule=topk,keys=k_hat", True, False)])
def test_outputs_are_those_of_the_keys_and_values_in_the_file(dump, tmp_path, options, own_keys, own_values, dtype):
    with h5py.File(dump, "r+") as file:
        file["samples/t/layers/3"].attrs["sliding_window"] = 60
    written = write_replacements(tmp_path / "own.h5", dump, dtype=dtype)
    done = attest_run(dump, tmp_path / "r.h5", "--selector",
                      f"own=imported:file={tmp_path / 'own.h5'},{options},token_bytes=8", "--budget", "20")
    assert done.returncode == 0, done.stderr
    for (sample, layer), (k_hat, v_hat, e) in written.items():
        at = LAYERS.index(layer)
        lse_error, output_error, io = (result(tmp_path / "r.h5", sample, name)[at, ..., 0]
                                       for name in ("lse_error", "output_error", "io_ratio"))
        with h5py.File(dump) as file:
            group = file[f"samples/{sample}/layers/{layer}"]
            q, k, v = (group[x][()] for x in "qkv")
        for n, position in enumerate(POSITIONS):
            first = max(0, position - 59) if (sample, layer) == ("t", 3) else 0
            seen = np.arange(first, position + 1)
            for h in range(HEADS):
                g = h * KV_HEADS // HEADS
                read_k, read_v = (k_hat if own_keys else k)[g], (v_hat if own_values else v)[g]
                kept = seen
                if "rule=all" not in options:
                    by = e[n, h, seen] if "dataset" in options else read_k[seen].astype(float) @ q[n, h].astype(float)
                    kept = seen[np.argsort(-by, kind="stable")[:20]]
                exact, exact_lse = attend(q[n, h], k[g], v[g], seen)
                output, lse = attend(q[n, h], read_k, read_v, kept)
                assert lse_error[n, h] == pytest.approx(abs(lse - exact_lse), rel=1e-4, abs=1e-5)
                assert output_error[n, h] == pytest.approx(
                    np.linalg.norm(output - exact) / np.linalg.norm(exact), rel=1e-4, abs=1e-5)
                if "rule=all" in options:
                    assert io[n, h] == pytest.approx(8 / (4 * DIM))


def test_what_stands_for_keys_is_an_estimate_in_nats(dump, tmp_path):
    write_replacements(tmp_path / "own.h5", dump)
    for options, defined in [("keys=k_hat", True), ("values=v_hat", False)]:
        done = attest_run(dump, tmp_path / "r.h5", "--force", "--selector",
                          f"own=imported:file={tmp_path / 'own.h5'},rule=all,{options}")
        assert done.returncode == 0 and "does not count the scan" not in done.stdout, done.stderr
        with h5py.File(tmp_path / "r.h5") as file:
            group = file["dumps/0/samples/s/own"]
            assert ("scan_error_mean" in group) == ("spearman" in group) == defined and group.attrs["setting"] == "none"


@pytest.mark.parametrize("change, sentence", [
    (lambda k, v: np.put(k, 7 * DIM, np.nan), "sample 's', layer 0, 'k_hat', head 0: NaN at token 7"),
    (lambda k, v: np.put(v, TOKENS * DIM, np.inf), "sample 's', layer 0, 'v_hat', head 1: infinity at token 0")])
def test_keys_and_values_that_are_not_finite(dump, tmp_path, change, sentence):
    write_replacements(tmp_path / "own.h5", dump, change=change)
    done = attest_run(dump, tmp_path / "r.h5", "--selector",
                      f"own=imported:file={tmp_path / 'own.h5'},rule=all,keys=k_hat,values=v_hat")
    assert done.returncode == 4 and sentence in done.stderr, done.stderr


def test_keys_of_another_shape(dump, tmp_path):
    write_replacements(tmp_path / "own.h5", dump)
    with h5py.File(tmp_path / "own.h5", "r+") as file:
        replaced("samples/t/layers/3/k_hat", np.zeros((KV_HEADS, TOKENS, DIM - 1), "f4"))(file)
    done = attest_run(dump, tmp_path / "r.h5", "--selector",
                      f"own=imported:file={tmp_path / 'own.h5'},rule=all,keys=k_hat")
    assert done.returncode == 4 and ("has the shape [2, 200, 15], expected [2, 200, 16] (num_kv_heads, num_tokens, "
                                     "head_dim)") in done.stderr
    for options in ("rule=all", "keys=k_hat,granularity=block", "values=v_hat"):
        done = attest_run(dump, tmp_path / "r.h5", "--selector", f"own=imported:file={tmp_path / 'own.h5'},{options}")
        assert done.returncode == 2 and "option 'dataset' is missing" in done.stderr, (options, done.stderr)


# ---- what is said


def test_a_scan_that_is_not_counted_is_told(dump, tmp_path):
    write_estimates(tmp_path / "own.h5")
    for options, told in [("", True), (",scan_bytes=4", False)]:
        arguments = ["--selector", selector(tmp_path / "own.h5", options), "--budget", "20", "--force"]
        text = attest_run(dump, tmp_path / "r.h5", *arguments)
        assert ("io does not count the scan of own (scan_bytes is 0)" in text.stdout) == told, text.stdout
        document = json.loads(attest_run(dump, tmp_path / "r.h5", *arguments, "--json", "--quiet").stdout)
        assert document["scan_not_counted"] == (["own"] if told else [])
        kept = np.round(result(tmp_path / "r.h5", "s", "keep_ratio")[..., 0] * [[POSITIONS[0] + 1], [POSITIONS[1] + 1]])
        assert (kept == 20).all()
        io = result(tmp_path / "r.h5", "s", "io_ratio")[..., 0]
        per_key = 2 * 2 * DIM  # bytes; the two heads of a group keep 20 to 40 tokens
        for n, position in enumerate(POSITIONS):
            scan = 0 if told else 4 / per_key
            assert (io[:, n] >= scan + 20 / (position + 1) - 1e-6).all() and (
                io[:, n] <= scan + 40 / (position + 1) + 1e-6).all()


def test_ranks_have_correlations_but_no_scan_errors(dump, tmp_path):
    write_estimates(tmp_path / "own.h5")
    for units, defined in [("scores", True), ("ranks", False)]:
        done = attest_run(dump, tmp_path / "r.h5", "--force", "--selector",
                          selector(tmp_path / "own.h5", f",units={units}"))
        assert done.returncode == 0, done.stderr
        with h5py.File(tmp_path / "r.h5") as file:
            group = file["dumps/0/samples/s/own"]
            assert np.isfinite(group["spearman"][()]).all()
            assert ("scan_error_mean" in group) == defined


def test_the_manifest_has_the_hash_of_the_file(dump, tmp_path):
    hashes = []
    for seed_change in (None, lambda values, *_: np.negative(values, out=values)):
        write_estimates(tmp_path / "own.h5", change=seed_change)
        done = attest_run(dump, tmp_path / "r.h5", "--force", "--selector", selector(tmp_path / "own.h5"))
        assert done.returncode == 0, done.stderr
        with h5py.File(tmp_path / "r.h5") as file:
            of_dump, entry = json.loads(file.attrs["manifest"])["inputs"]
        assert of_dump["path"] == str(dump)
        assert entry["path"] == str(tmp_path / "own.h5") and entry["bytes"] == (tmp_path / "own.h5").stat().st_size
        hashes.append(entry["xxh64_of_1MiB"])
    assert hashes[0] != hashes[1] and all(len(text) == 16 for text in hashes)


# ---- what is refused


def set_value(value, where):
    def change(values, sample, layer):
        if sample == "t" and layer == 3:
            values[where] = value

    return change


@pytest.mark.parametrize(
    "value, what", [(np.nan, "NaN"), (np.inf, "infinity")]
)
def test_a_value_that_is_no_estimate(dump, tmp_path, value, what):
    write_estimates(tmp_path / "own.h5", change=set_value(value, (0, 2, 130)))
    done = attest_run(dump, tmp_path / "r.h5", "--selector", selector(tmp_path / "own.h5"))
    assert done.returncode == 4
    assert f"own.h5: sample 't', layer 3, 'e', query at 130, head 2: {what} at token 130" in done.stderr
    assert not (tmp_path / "r.h5").exists()
    done = attest_run(dump, tmp_path / "r.h5", "--skip-bad-layers", "--force", "--selector",
                      selector(tmp_path / "own.h5"))
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "r.h5") as file:
        assert file["dumps/0/samples/t/own/done"][()].tolist() == [1, 0]


@pytest.mark.parametrize("value, where", [(np.nan, (0, 2, 131)), (np.inf, (0, 0, 199)), (-np.inf, (0, 2, 50))])
def test_what_no_query_looks_at_may_be_anything_and_minus_infinity_is_an_estimate(dump, tmp_path, value, where):
    write_estimates(tmp_path / "own.h5", change=set_value(value, where))
    done = attest_run(dump, tmp_path / "r.h5", "--selector", selector(tmp_path / "own.h5"))
    assert done.returncode == 0, done.stderr


def replaced(name, values):
    def change(file):
        del file[name]
        if values is not None:
            file[name] = values

    return change


AT = "samples/t/layers/3/e"


@pytest.mark.parametrize(
    "change, sentence",
    [
        (replaced("samples/t", None), "'t'"),
        (replaced("samples/t/layers/3", None), "'3'"),
        (replaced(AT, None), "'e'"),
        (replaced(AT, np.zeros((2, HEADS, TOKENS - 1), "f4")), "has the shape [2, 4, 199], expected [2, 4, 200]"),
        (replaced(AT, np.zeros((3, HEADS, TOKENS), "f4")), "has the shape [3, 4, 200], expected [2, 4, 200]"),
        (replaced(AT, np.zeros((2, 3, TOKENS), "f4")), "has the shape [2, 3, 200], expected [2, 4, 200]"),
        (replaced(AT, np.zeros((2, HEADS, TOKENS, 1), "f4")), "expected [2, 4, 200]"),
        (replaced(AT, np.zeros((2, HEADS, TOKENS), "i4")), "expected little-endian float16, float32 or float64"),
        (replaced(AT, np.zeros((2, HEADS, TOKENS), ">f4")), "expected little-endian float16, float32 or float64"),
    ],
)
def test_a_file_that_does_not_suit_the_dump(dump, tmp_path, change, sentence):
    write_estimates(tmp_path / "own.h5")
    with h5py.File(tmp_path / "own.h5", "r+") as file:
        change(file)
    done = attest_run(dump, tmp_path / "r.h5", "--selector", selector(tmp_path / "own.h5"))
    assert done.returncode == 4, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and str(tmp_path / "own.h5") in done.stderr \
        and sentence in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dump.h5", "own.h5"]


@pytest.mark.parametrize("content", [None, b"", b"not HDF5, but long enough to hold a signature of some other kind"])
def test_a_file_that_is_none(dump, tmp_path, content):
    if content is not None:
        (tmp_path / "own.h5").write_bytes(content)
    done = attest_run(dump, tmp_path / "r.h5", "--selector", selector(tmp_path / "own.h5"))
    assert done.returncode == 4 and f"{tmp_path / 'own.h5'}: " in done.stderr and not (tmp_path / "r.h5").exists()


def test_a_truncated_file(dump, tmp_path):
    write_estimates(tmp_path / "own.h5")
    content = (tmp_path / "own.h5").read_bytes()
    for size in (len(content) - 1, len(content) // 2, 100):
        (tmp_path / "own.h5").write_bytes(content[:size])
        done = attest_run(dump, tmp_path / "r.h5", "--selector", selector(tmp_path / "own.h5"))
        assert done.returncode == 4, (size, done.stderr)


def test_links_out_of_the_file_are_not_followed(dump, tmp_path):
    write_estimates(tmp_path / "other.h5")
    write_estimates(tmp_path / "own.h5")
    with h5py.File(tmp_path / "own.h5", "r+") as file:
        del file[AT]
        file[AT] = h5py.ExternalLink("other.h5", AT)
    done = attest_run(dump, tmp_path / "r.h5", "--selector", selector(tmp_path / "own.h5"))
    assert done.returncode == 4, done.stderr


def test_options_that_are_missing(dump, tmp_path):
    for text, option in [("own=imported", "file"), ("own=imported:file=a.h5", "dataset")]:
        done = attest_run(dump, tmp_path / "r.h5", "--selector", text)
        assert done.returncode == 2 and f"option '{option}' is missing" in done.stderr


def test_the_estimates_are_never_overwritten(dump, tmp_path):
    write_estimates(tmp_path / "own.h5")
    before = (tmp_path / "own.h5").read_bytes()
    done = attest_run(dump, tmp_path / "own.h5", "--force", "--selector", selector(tmp_path / "own.h5"))
    assert done.returncode == 2, done.stderr
    assert (tmp_path / "own.h5").read_bytes() == before


def test_two_dumps_with_samples_of_one_name_are_one_too_many(dump, tmp_path):
    write_estimates(tmp_path / "own.h5")
    other = write_dump(tmp_path / "other.h5", ("t",))
    done = attest_run(dump, tmp_path / "r.h5", other, "--selector", selector(tmp_path / "own.h5"))
    assert done.returncode == 2 and "study one dump at a time" in done.stderr


def test_a_study_is_not_resumed_with_other_estimates(dump, tmp_path):
    write_estimates(tmp_path / "own.h5", change=set_value(np.nan, (0, 0, 0)))
    chosen = ["--selector", selector(tmp_path / "own.h5"), "--threads", "1"]
    assert attest_run(dump, tmp_path / "r.h5", *chosen).returncode == 4
    assert (tmp_path / "r.h5.partial").is_dir()
    write_estimates(tmp_path / "own.h5", change=lambda values, *_: np.negative(values, out=values))
    done = attest_run(dump, tmp_path / "r.h5", "--resume", *chosen)
    assert done.returncode != 0 and "own.h5" in done.stderr


# ---- the worked example


def test_the_worked_example_works(tmp_path):
    text = (ROOT / "kernels/selectors/README.md").read_text()
    (script,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(script.splitlines()) <= 20
    (tmp_path / "mean_key.py").write_text(script)
    demo = ROOT / "dumps/demo.h5"
    subprocess.run([sys.executable, tmp_path / "mean_key.py", demo, tmp_path / "own.h5"], check=True)
    commands = re.search(r"    \./attest run dumps/demo\.h5 (.*?)\n\n", text, re.DOTALL)[1].replace("\\\n", " ").split()
    commands = [word.replace("own.h5", str(tmp_path / "own.h5")) for word in commands if word not in ("-o", "r.h5")]
    done = attest_run(demo, tmp_path / "r.h5", *commands)
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "r.h5") as file:
        sample = file["dumps/0/samples/niah_single_4k"]
        assert np.nanmean(sample["mean_key/spearman_block128"][()]) > 0.5
        assert sample["oracle/mass_recall"][()].mean() > sample["mean_key/mass_recall"][()].mean()
