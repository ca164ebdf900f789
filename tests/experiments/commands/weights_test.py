"""attest weights and attest run --weights: averages in plain numpy, the same cells as gradients in the dump,
refusals."""

import json

import h5py
import numpy as np
import pytest

from attest_program import attest
import dump_maker
from near import DOUBLE, FLOAT32, assert_near

HEADS, LAYERS, POSITIONS = 4, (0, 2), (50, 51, 63)


def write_dump(path, seed, samples=("s",), **shape):
    def values(random, layer):
        return (random.standard_normal((len(POSITIONS), HEADS, 16)).astype(np.float32),
                *random.standard_normal((2, 2, 64, 16)).astype(np.float32))

    dump_maker.write_dump(path, values, **{"seed": seed, "layers": LAYERS, "tokens": 64, "heads": HEADS, "kv_heads": 2,
                                           "dim": 16, "positions": POSITIONS, "samples": samples,
                                           "num_layers": 3} | shape)
    return path


def add_gradients(path, seed, sample="s", layers=LAYERS):
    """Returns the weight of each head of each layer."""
    random, weights = np.random.default_rng(seed), {}
    with h5py.File(path, "r+") as file:
        for layer in layers:
            gradient = random.exponential(size=(len(POSITIONS), HEADS)).astype(np.float32)
            file[f"samples/{sample}/layers/{layer}/head_gradient"] = gradient
            weights[layer] = np.sqrt((gradient.astype(float) ** 2).mean(0))
    return weights


def run(*arguments, expect=0):
    return attest("run", *arguments, "--device", "cpu", "--selector", "recent=streaming_llm", "--budget", "16,25%",
                  expect=expect)


@pytest.fixture
def made(tmp_path):
    """Two dumps with three prompts, one of which lacks the gradients of layer 0."""
    write_dump(tmp_path / "a.h5", 1, samples=("p", "q"))
    write_dump(tmp_path / "b.h5", 2, samples=("r",))
    found = [add_gradients(tmp_path / "a.h5", 3, "p"), add_gradients(tmp_path / "a.h5", 4, "q", [2]),
             add_gradients(tmp_path / "b.h5", 5, "r")]
    return tmp_path, found


def test_weights_are_means_over_the_prompts(made):
    folder, (p, q, r) = made
    done = attest("weights", folder / "a.h5", folder / "b.h5", "-o", folder / "w.json", "--json")
    document = json.loads((folder / "w.json").read_text())
    assert document == json.loads(done.stdout)
    members = {name: document[name] for name in ("format", "format_version", "model", "num_layers", "num_query_heads",
                                                 "prompts")}
    assert members == {"format": "attest-head-weights", "format_version": 1, "model": "test/model", "num_layers": 3,
                       "num_query_heads": HEADS, "prompts": 3}
    assert list(document["layers"]) == ["0", "2"]
    assert [document["layers"][layer]["prompts"] for layer in ("0", "2")] == [2, 3]
    assert_near(document["layers"]["0"]["weights"], (p[0] + r[0]) / 2, rel=DOUBLE)
    assert_near(document["layers"]["2"]["weights"], (p[2] + q[2] + r[2]) / 3, rel=DOUBLE)
    run(folder / "a.h5", "-o", folder / "r.h5")
    with h5py.File(folder / "r.h5") as file:
        manifest = json.loads(file.attrs["manifest"])
    assert document["inputs"][0]["xxh64_of_1MiB"] == manifest["inputs"][0]["xxh64_of_1MiB"]


def test_chosen_prompts_and_what_is_printed(made):
    folder, (_, q, _) = made
    done = attest("weights", folder / "a.h5", folder / "b.h5", "-o", folder / "w.json", "--samples", "q")
    assert json.loads((folder / "w.json").read_text())["layers"].keys() == {"2"}
    heaviest, share = int(q[2].argmax()), 100 * q[2].max() / q[2].sum()
    assert done.stdout.splitlines()[1].split() == ["2", str(heaviest), f"{q[2].max():.4g}", f"{share:.1f}%"]
    assert done.stdout.splitlines()[-1].endswith("weights of 1 layer of 'test/model', averaged over 1 prompt")


def test_a_study_with_a_file_is_that_with_such_gradients(made):
    folder, _ = made
    attest("weights", folder / "a.h5", folder / "b.h5", "-o", folder / "w.json")
    weights = json.loads((folder / "w.json").read_text())["layers"]
    plain = write_dump(folder / "plain.h5", 9)
    done = run(plain, "-o", folder / "file.h5", "--weights", folder / "w.json")
    assert "weighted_error is of 2 of the model's 3 layers" in done.stderr and "not used" not in done.stderr
    with h5py.File(plain, "r+") as file:
        for layer in LAYERS:
            file[f"samples/s/layers/{layer}/head_gradient"] = np.tile(
                np.float32(weights[str(layer)]["weights"]), (len(POSITIONS), 1))
    run(plain, "-o", folder / "own.h5")
    with h5py.File(folder / "file.h5") as file, h5py.File(folder / "own.h5") as own:
        for name in ("weighted_error_head", "weighted_error"):
            got, want = (f[f"dumps/0/samples/s/recent/{name}"][:] for f in (file, own))
            assert_near(got, want, rel=FLOAT32)
            assert want.min() > 1e-3
        manifest = json.loads(file.attrs["manifest"])
        assert manifest["head_weights"] == manifest["inputs"][-1]["path"] == str(folder / "w.json")
        assert len(manifest["inputs"][-1]["xxh64_of_1MiB"]) == 16
        assert "head_weights" not in json.loads(own.attrs["manifest"])
    done = run(plain, "-o", folder / "both.h5", "--weights", folder / "w.json")
    assert f"2 of 2 layers have head gradients of their own, for which {folder / 'w.json'} is not used" in done.stderr


def test_layers_without_gradients_are_said(made):
    folder, _ = made
    done = run(folder / "a.h5", "-o", folder / "r.h5")
    assert "1 of 4 layers of its samples have no head gradients; weighted_error is not defined in a sample" \
        in done.stderr


def test_other_weights_are_another_study(made):
    folder, _ = made
    for name, samples in (("w", "p"), ("v", "r")):
        attest("weights", folder / "a.h5", folder / "b.h5", "-o", folder / f"{name}.json", "--samples", samples)
    plain = write_dump(folder / "plain.h5", 9)
    run(plain, "-o", folder / "r.h5", "--weights", folder / "w.json")
    run(plain, "-o", folder / "r.h5", "--weights", folder / "w.json", "--resume")
    for other in ["--weights", folder / "v.json"], []:
        assert "with other options or inputs" in run(plain, "-o", folder / "r.h5", "--resume", *other, expect=2).stderr


@pytest.mark.parametrize("change, sentence", [
    ({"model": "other"}, "has weights of the model 'other' with 3 layers of 4 query heads, expected those of"),
    ({"num_layers": 4}, "'test/model' with 4 layers of 4 query heads, expected those of"),
    ({"num_query_heads": 2}, "layers.0.weights is a list, expected a list of 2 numbers, one of each query head"),
    ({"layers": {"0": {"weights": [1, 1, 1, 1]}}}, "has no weights of layer 2, which"),
    ({"layers": {"3": {"weights": [1, 1, 1, 1]}}}, "layers.3 has no number of a layer from 0 to 2 as its name"),
    ({"layers": {"02": {"weights": [1, 1, 1, 1]}}}, "layers.02 has no number of a layer from 0 to 2 as its name"),
    ({"layers": {"0": {"weights": [1, 1, -1, 1]}}},
     "layers.0.weights is a list, expected a list of numbers of at least 0"),
    ({"layers": {"0": {"weights": [1, 1, 1e39, 1]}}},
     "expected a list of 4 numbers, one of each query head that float32 holds"),
    ({"layers": {"0": [1, 1, 1, 1]}}, "layers.0"),
    ({"layers": None}, "layers"),
    ({"format": "attest-recommendation"}, 'format is "attest-recommendation", expected "attest-head-weights"'),
    ({"format_version": 2}, "format_version is 2, expected 1"),
    ({"num_query_heads": 1 << 40}, "num_query_heads is 1099511627776, expected a whole number from 1 to 2147483647"),
])
def test_wrong_files_are_refused(made, change, sentence):
    folder, _ = made
    attest("weights", folder / "a.h5", "-o", folder / "w.json")
    (folder / "w.json").write_text(json.dumps(json.loads((folder / "w.json").read_text()) | change))
    done = run(write_dump(folder / "plain.h5", 9), "-o", folder / "r.h5", "--weights", folder / "w.json", expect=4)
    assert sentence in done.stderr and str(folder / "w.json") in done.stderr and done.stderr.count("\n") == 1, \
        done.stderr
    assert not (folder / "r.h5").exists() and not (folder / "r.h5.partial").exists()


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"format": 1}'])
def test_what_is_no_such_file_is_refused(made, text):
    folder, _ = made
    (folder / "w.json").write_text(text)
    done = run(folder / "a.h5", "-o", folder / "r.h5", "--weights", folder / "w.json", expect=4)
    assert str(folder / "w.json") in done.stderr and done.stderr.count("\n") == 1


def test_what_attest_weights_refuses(made):
    folder, _ = made
    plain, out = write_dump(folder / "plain.h5", 9), folder / "w.json"
    assert "no layer has head gradients, which 'attest capture --head-weights' adds" \
        in attest("weights", plain, "-o", out, expect=4).stderr
    other = write_dump(folder / "other.h5", 9, num_layers=5)
    add_gradients(other, 1)
    assert "is of 'test/model' with 5 layers of 4 query heads, expected the model of" \
        in attest("weights", folder / "a.h5", other, "-o", out, expect=4).stderr
    assert "no dump has a sample 'x'" in attest("weights", folder / "a.h5", "-o", out, "--samples", "x",
                                                expect=2).stderr
    attest("weights", folder / "a.h5", "-o", folder / "a.h5", "--force", expect=2)
    attest("weights", folder / "missing.h5", "-o", out, expect=4)
    again = folder / "." / "a.h5"
    assert "are the same dump, expected each once" in attest(
        "weights", folder / "a.h5", again, "-o", out, expect=2).stderr
    assert "--keep-dense: '3000000000' is not a whole number from 1 to 2147483647" in attest(
        "weights", folder / "a.h5", "-o", out, "--keep-dense", 3_000_000_000, expect=2).stderr
    assert not out.exists()
    attest("weights", folder / "a.h5", "-o", out)
    attest("weights", folder / "a.h5", "-o", out, expect=5)
    attest("weights", folder / "b.h5", "-o", out, "--force")
    assert json.loads(out.read_text())["prompts"] == 1


def weighted_error(path):
    """The prompts' [N, S] from the heads' cells, in plain numpy."""
    with h5py.File(path) as file:
        return [np.sqrt((sample["recent/weighted_error_head"][:].astype(float) ** 2).sum(2)).sum(0)
                for sample in file["dumps/0/samples"].values()]


def test_a_column_of_the_whole_model(made):
    folder, _ = made
    run(folder / "b.h5", "-o", folder / "r.h5")
    columns = "weighted_error.max,weighted_error,weighted_error.count"
    rows = json.loads(attest("table", folder / "r.h5", "--metrics", columns, "--format", "json").stdout)["rows"]
    want = weighted_error(folder / "r.h5")[0]
    for s, row in enumerate(rows):
        assert_near([row[f"weighted_error.{name}"] for name in ("max", "mean", "count")],
                    [want[:, s].max(), want[:, s].mean(), 3],
                    rel=FLOAT32)
    for split in "layer", "head":
        done = attest("table", folder / "r.h5", "--by", split, "--metrics", "weighted_error", expect=2)
        assert f"--by {split}: 'weighted_error' is of all layers together; 'weighted_error_head' has its parts" \
            in done.stderr
    run(write_dump(folder / "plain.h5", 9), "-o", folder / "plain-r.h5")
    assert "takes head gradients or --weights" in attest(
        "table", folder / "plain-r.h5", "--metrics", "weighted_error", expect=4).stderr


def test_a_target_of_the_whole_model(tmp_path):
    """What the worst of 60 prompts needs at the larger budget is certified there, and not at the smaller one."""
    names = [f"s{i:02}" for i in range(60)]
    dump = write_dump(tmp_path / "d.h5", 1, samples=names)
    for i, name in enumerate(names):
        add_gradients(dump, i, name)
    run(dump, "-o", tmp_path / "r.h5", "--budget", "8,32")
    worst = np.array([each.max(0) for each in weighted_error(tmp_path / "r.h5")])
    assert (worst[:, 0] > worst[:, 1].max()).sum() > 20, "the smaller budget must fail"
    target = f"weighted_error.max<={worst[:, 1].max() * 1.0001}"
    done = attest("validate", tmp_path / "r.h5", "--target", target, "--json")
    assert "certified: budget 32 of recent" in json.loads(done.stdout)["text"]
    attest("validate", tmp_path / "r.h5", "--target", f"weighted_error.max<={worst[:, 1].min() * 0.999}", expect=3)
    for per in "layer", "kv_head":
        done = attest("validate", tmp_path / "r.h5", "--target", target, "--per", per, expect=2)
        assert f"--per {per}: 'weighted_error' is of all layers together" in done.stderr
    done = attest("validate", tmp_path / "r.h5", "--target", target, "--layers", "0", expect=2)
    assert "--layers: 'weighted_error' is of all layers together, of which none is left out" in done.stderr
    # The heads that make up the worst rows of what is in the way.
    offenders = json.loads(attest("validate", tmp_path / "r.h5", "--target", target, "--json").stdout)["offenders"]
    found = offenders["cells"]
    with h5py.File(tmp_path / "r.h5") as file:
        count = 0
        for name in names:
            group = file[f"dumps/0/samples/{name}/recent"]
            s = group["settings"][:].tolist().index(found[0]["setting"])
            rows = group["weighted_error"][:, s] > worst[:, 1].max() * 1.0001
            count += (group["weighted_error_head"][:, rows, :, s] > 0).sum()
        assert offenders["count"] == count > len(found), "all heads count, the worst three of a row are named"
        for cell in found[:20]:
            group = file[f"dumps/0/samples/{cell['prompt']}/recent"]
            n, s = POSITIONS.index(cell["query_position"]), group["settings"][:].tolist().index(cell["setting"])
            parts = group["weighted_error_head"][:, n, :, s]
            assert cell["value"] == pytest.approx(parts[LAYERS.index(cell["layer"]), cell["head"]])
            assert (parts > cell["value"]).sum() < 3 and cell["row_value"] == pytest.approx(
                group["weighted_error"][n, s])
            assert cell["row_value"] > worst[:, 1].max() and "enough" in cell
    largest = found[0]
    sentence = (
        f"layer {largest['layer']}, head {largest['head']}, prompt {largest['prompt']}, query "
        f"{largest['query_position']}: weighted_error_head {largest['value']:.6g} in a row with weighted_error "
        f"{largest['row_value']:.6g} > ")
    assert sentence in attest("validate", tmp_path / "r.h5", "--target", target).stdout
    assert [c["value"] for c in found] == sorted((c["value"] for c in found), reverse=True)


def test_the_heaviest_kv_heads_as_an_option(made):
    folder, (p, q, r) = made
    squares = {}
    for layer, of_prompts in ((0, (p[0], r[0])), (2, (p[2], q[2], r[2]))):
        for head, weight in enumerate(sum(of_prompts) / len(of_prompts)):
            squares[f"{layer}:{head // 2}"] = squares.get(f"{layer}:{head // 2}", 0) + weight**2
    order = sorted(squares, key=lambda head: -squares[head])
    done = attest("weights", folder / "a.h5", folder / "b.h5", "-o", folder / "w.json", "--keep-dense", 3)
    option = "dense_heads=" + "+".join(order[:3])
    assert done.stdout.splitlines()[-1] == (f"{option}: the option with which a selector leaves the 3 heaviest of its "
                                            "4 KV heads exact")
    assert json.loads(attest("weights", folder / "a.h5", folder / "b.h5", "-o", folder / "w.json", "--keep-dense", 3,
                             "--json", "--force").stdout)["dense_heads"] == "+".join(order[:3])
    assert "dense_heads" not in json.loads((folder / "w.json").read_text())
    done = attest("weights", folder / "a.h5", "-o", folder / "x.json", "--keep-dense", 5, expect=2)
    assert "--keep-dense is 5, and the dumps have weights of 4 KV heads" in done.stderr \
        and not (folder / "x.json").exists()
    # The option makes these heads exact, and leaves the others as they are.
    errors = {}
    for name, selector in (("plain", "recent=streaming_llm"), ("kept", f"recent=streaming_llm:{option}")):
        attest("run", folder / "b.h5", "-o", folder / f"{name}.h5", "--device", "cpu", "--selector", selector,
               "--budget", "16,25%")
        with h5py.File(folder / f"{name}.h5") as file:
            errors[name] = file["dumps/0/samples/r/recent/weighted_error_head"][:]
    for y, layer in enumerate(LAYERS):
        for head in range(HEADS):
            kept = f"{layer}:{head // 2}" in order[:3]
            assert (errors["plain"][y, :, head] > 0).all()
            np.testing.assert_array_equal(errors["kept"][y, :, head], 0 if kept else errors["plain"][y, :, head])


@pytest.mark.parametrize("heads, sentence", [
    ("9:0", "option 'dense_heads' has 9:0, and the model of"),
    ("2:2", "option 'dense_heads' has 2:2, and layer 2 has 2 KV heads"),
    ("2-1", "option 'dense_heads' is '2-1', expected KV heads as LAYER:HEAD joined by '+', such as 7:1+5:0")])
def test_dense_heads_that_the_model_lacks_are_refused(made, heads, sentence):
    folder, _ = made
    done = attest("run", folder / "b.h5", "-o", folder / "r.h5", "--device", "cpu", "--selector",
                  f"streaming_llm:dense_heads={heads}", expect=2)
    assert sentence in done.stderr and not (folder / "r.h5").exists()
