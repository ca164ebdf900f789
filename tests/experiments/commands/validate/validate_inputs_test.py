"""`attest validate`: which prompts are judged, requests that are refused, dumps as input."""

import json
import shutil

import h5py
import numpy as np
import pytest
from attest_program import run_attest
from dump_maker import write_dump
from verdicts import TARGET, planted, validate, verdict


def test_lengths(tmp_path):
    path = planted(tmp_path / "r.h5", 29, [0, 0, 0], lengths=[1000 + 100 * p for p in range(29)])
    done = validate(path, "--target", TARGET, "--for-length", "128K", expect=3)
    assert "131072 tokens" in done.stderr and "1000 to 3800" in done.stderr and done.stdout == ""
    said = validate(path, "--target", TARGET, "--for-length", "128K", "--extrapolate").stdout
    assert "extrapolated to contexts of 131072 tokens: no prompt is as long" in said
    found = json.loads(validate(path, "--target", TARGET, "--for-length", "128K", "--extrapolate", "--json").stdout)
    assert found["claim"]["extrapolated_to"] == 131072
    within = json.loads(validate(path, "--target", TARGET, "--json").stdout)
    assert "extrapolated_to" not in within["claim"]
    validate(path, "--target", TARGET, "--for-length", "1000")
    validate(path, "--target", TARGET, "--for-length", "984")
    # more tokens than the beginning of an answer has
    validate(path, "--target", TARGET, "--for-length", "983", expect=3)


def test_several_files_in_any_order(tmp_path):
    one = planted(tmp_path / "a.h5", 20, [1, 0, 0], dump="a.h5")
    two = planted(tmp_path / "b.h5", 26, [0, 0, 0], dump="b.h5")
    first, second = (verdict(*paths, "--target", TARGET) for paths in ((one, two), (two, one)))
    assert first["claim"]["n"] == 46 and first["certified"] == 3
    for found in (first, second):
        found["results"].sort(key=lambda result: result["path"])
    assert first == second
    for options in (["--claim", "mean"], ["--per", "kv_head"], ["--per", "kv_head", "--io-budget", "20%"]):
        texts = []
        for paths in ((one, two), (two, one)):
            done = run_attest("validate", *paths, "--target", "recall.min>=0.9", *options)
            texts.append((done.returncode, done.stdout))
        assert texts[0] == texts[1] and texts[0][0] in (0, 3)


def test_prompts_and_studies_that_do_not_fit(tmp_path):
    one = planted(tmp_path / "a.h5", 20, [0, 0, 0])
    assert "same prompt" in validate(one, one, "--target", TARGET, expect=2).stderr
    copy = shutil.copy(one, tmp_path / "copy.h5")
    assert "same prompt" in validate(one, copy, "--target", TARGET, expect=2).stderr
    with h5py.File(copy, "r+") as file:  # renamed, but with the same scores
        file["dumps/0"].attrs["path"] = "other.h5"
        samples = file["dumps/0/samples"]
        for name in list(samples):
            samples.move(name, name + "x")
    assert "same prompt" in validate(one, copy, "--target", TARGET, expect=2).stderr
    for name, more, text in [("g", {"settings": (3, 5, 9)}, "settings"), ("o", {"options": {"bits": "4"}}, "options"),
                             ("l", {"label": "x"}, "no selector"), ("m", {"model": "other"}, "models"),
                             ("k", {"kv_heads": 4}, "KV heads"),
                             ("y", {"layers": [0, 3], "num_layers": 4}, "layers")]:
        other = planted(tmp_path / f"{name}.h5", 20, [0, 0, 0], dump="other.h5", names=[f"q{p}" for p in range(20)],
                        **more)
        assert text in validate(one, other, "--target", TARGET, expect=2).stderr
    left_out = planted(tmp_path / "left.h5", 29, [0, 0, 0], left_out={(3, 1)})
    assert "layer 1 of sample 'p003' was left out" in validate(left_out, "--target", TARGET, expect=4).stderr
    assert verdict(left_out, "--target", TARGET, "--layers", "0")["claim"]["layers"] == [0]


@pytest.mark.parametrize("arguments, text", [
    (["--target", "recall"], "--target"), (["--target", "recall>=1.5"], "above 1"),
    (["--target", "lse>=1"], "exact scores"), ([], "--target"),
    (["--target", "nothing>=1"], "no metric"), (["--target", TARGET, "--target", TARGET], "same number"),
    (["--target", TARGET, "--delta", "4"], "3, 5, 7"), (["--target", TARGET, "--delta", "3,5"], "--delta"),
    (["--target", TARGET, "--delta", "3", "--p", "0.5"], "give one"), (["--target", TARGET, "--grid", "3,4"], "4"),
    (["--target", TARGET, "--layers", "7"], "layer 7"), (
        ["--target", TARGET, "--model", "x"], "no prompt is of the model 'x'"),
    (["--target", TARGET, "--selector", "x"], "--selector"),
    (["--target", TARGET, "--confidence", "1"], "--confidence"),
    (["--target", TARGET, "--max-violating", "0"], "--max-violating"),
    (["--target", TARGET, "--io-budget", "10%"], "--per"),
    (["--target", TARGET, "--choose", "10%"], "--per"), (["--target", TARGET, "--clip", "0.1"], "--claim mean"),
    (["--target", TARGET, "--bound", "hb"], "--claim mean"), (["--target", TARGET, "--extrapolate"], "--for-length"),
    (["--target", TARGET, "--claim", "mean", "--max-violating", "5%"], "--max-violating"),
    (["--target", TARGET, "--claim", "observed", "--confidence", "5%"], "--confidence"),
    (["--target", TARGET, "--results", "x.h5"], "dumps"),
    (["--target", TARGET, "--queries", "last:1"], "dumps"),
    (["--target", "recall>=1", "--claim", "mean"], "allows no deficit"),
    (["--target", TARGET, "--claim", "mean", "--clip", "0.01"], "--clip"),
    (["--target", TARGET, "--per", "layer", "--delta", "5"], "--per"),
    (["--target", TARGET, "--per", "head"], "--per"), (["--target", TARGET, "--for-length", "x"], "--for-length"),
])
def test_bad_requests(tmp_path, arguments, text):
    path = planted(tmp_path / "r.h5", 29, [0, 0, 0])
    assert text in validate(path, *arguments, expect=2).stderr


def test_bad_files(tmp_path):
    (tmp_path / "x.h5").write_bytes(b"nothing")
    validate(tmp_path / "x.h5", "--target", TARGET, expect=4)
    validate(tmp_path / "none.h5", "--target", TARGET, expect=4)
    path = planted(tmp_path / "r.h5", 29, [0, 0, 0])
    with h5py.File(path, "r+") as file:
        del file["dumps/0/samples"]
        file["dumps/0"].create_group("samples")
    assert "no sample" in validate(path, "--target", TARGET, expect=4).stderr


# -- dumps


def test_dumps(tmp_path):
    def values(random, layer):
        q, k = random.normal(size=(2, 4, 64)).astype(np.float32), random.normal(size=(2, 200, 64)).astype(np.float32)
        return q, k, random.normal(size=(2, 200, 64)).astype(np.float32)

    write_dump(tmp_path / "d.h5", values, seed=1, layers=[0, 2], tokens=200, heads=4, kv_heads=2, dim=64,
               positions=[150, 199],
               samples=[f"s{i}" for i in range(6)])
    options = ["--target", "recall>=0.5", "--max-violating", "50%", "--selector", "topdelta"]
    found = verdict("d.h5", *options, cwd=tmp_path)
    assert found["claim"]["n"] == 6 and found["verdict"] == "certified" and len(found["settings"]) == 61
    results = tmp_path / "d.study.h5"
    assert results.exists()
    before = results.stat().st_mtime_ns
    again = verdict("d.h5", *options, cwd=tmp_path)
    assert again == found and results.stat().st_mtime_ns == before, "the study is used again"
    for _ in range(2):
        verdict("d.h5", *options, "--results", "d.study.h5", "-o", "d.json", "--force", cwd=tmp_path)
        assert results.stat().st_mtime_ns == before, "--force replaces the recommendation, not the same study"
    assert verdict("d.study.h5", *options, cwd=tmp_path)["settings"] == found["settings"]
    said = validate("d.h5", *options, "--csv", "d.study.h5", "--force", expect=2, cwd=tmp_path).stderr
    assert "d.study.h5" in said and "is an input or another output" in said and results.stat().st_mtime_ns == before
    assert "give dumps or results" in validate("d.h5", "d.study.h5", *options, expect=2, cwd=tmp_path).stderr
    # Another study does not replace it.
    refused = validate("d.h5", "--target", "recall>=0.5", "--selector", "topk", "--quiet", cwd=tmp_path,
                       expect=2).stderr
    assert refused == (
        "attest: 'd.study.h5' holds another study, of other options: selector 1, label = \"topdelta\", this command "
        "has \"topk\"; --results names another file, and --force replaces it\n")
    assert results.stat().st_mtime_ns == before
    named = verdict("d.h5", "--target", "recall>=0.5", "--max-violating", "50%", "--selector", "topk:gqa=union",
                    "--budget", "50%", "--results",
                    "k.h5", "--layers", "2", "--samples", "s0,s1,s2,s3,s4", "--queries", "last:1", cwd=tmp_path)
    assert named["settings"][0]["setting"] == "50%" and named["claim"]["layers"] == [2] and named["claim"]["n"] == 5


def test_what_a_dump_cannot_say_is_refused_before_its_study(tmp_path):
    def values(random, layer):
        return tuple(random.normal(size=shape).astype(np.float32) for shape in [(2, 4, 64), (2, 200, 64), (2, 200, 64)])

    write_dump(tmp_path / "d.h5", values, seed=1, layers=[0], tokens=200, heads=4, kv_heads=2, dim=64,
               positions=[150, 199], samples=["a", "b"])
    with h5py.File(tmp_path / "d.h5", "r+") as file:
        file["samples/a"].attrs["document"] = "one"
    options = ["d.h5", "--target", "recall>=0.5", "--claim", "observed", "--selector", "topdelta", "--quiet"]
    for arguments, code, sentence in [
            (["--cluster", "topic"], 2, "--cluster: d.h5: sample 'a' has no attribute 'topic', expected a text"),
            (["--cluster", "document"], 2, "--cluster: d.h5: sample 'b' has no attribute 'document', expected a text"),
            (["--for-length", "983"], 3, "nothing is claimed for contexts of 983 tokens: the prompts have 200 to 200 "
                                         "tokens. ")]:
        assert validate(*options, *arguments, expect=code, cwd=tmp_path).stderr.startswith(f"attest: {sentence}")
        assert [path.name for path in tmp_path.iterdir()] == ["d.h5"]
    for arguments in (["--cluster", "task"], ["--cluster", "document", "--samples", "a"], ["--for-length", "200"],
                      ["--for-length", "983", "--extrapolate"]):
        validate(*options, *arguments, "--force", expect=3, cwd=tmp_path)
        assert (tmp_path / "d.study.h5").exists()


@pytest.mark.parametrize("option, more, said", [
    ("--emit-trtllm", ["--selector", "skip_softmax:unit=delta"], "takes one factor of skip_softmax:unit=factor"),
    ("--emit-vllm", [], "takes formats of kv_cache, and exact: 'ffd' is ffd"),
    ("--emit-modelopt", ["--selector", "kv_cache:k=fp8_e4m3", "--per", "kv_head"], "use --per layer")])
def test_what_no_result_lets_an_engine_say_is_refused_before_the_study(tmp_path, option, more, said):
    def values(random, layer):
        return tuple(random.normal(size=shape).astype(np.float32) for shape in [(2, 4, 64), (2, 200, 64), (2, 200, 64)])

    write_dump(tmp_path / "d.h5", values, seed=1, layers=[0], tokens=200, heads=4, kv_heads=2, dim=64,
               positions=[150, 199])
    done = validate("d.h5", "--target", TARGET, *more, option, "e", expect=2, cwd=tmp_path)
    assert option in done.stderr and said in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["d.h5"]


def test_dumps_of_several_models_are_refused_before_their_study(tmp_path):
    def values(random, layer):
        return tuple(random.normal(size=shape).astype(np.float32) for shape in [(2, 4, 64), (2, 200, 64), (2, 200, 64)])

    for name in ("one", "two"):
        write_dump(tmp_path / f"{name}.h5", values, seed=1, layers=[0], tokens=200, heads=4, kv_heads=2, dim=64,
                   positions=[150, 199])
        with h5py.File(tmp_path / f"{name}.h5", "r+") as file:
            file.attrs["model"] = name
    options = ["one.h5", "two.h5", "--target", "recall>=0.5", "--claim", "observed", "--selector", "topdelta",
               "--quiet"]
    for arguments, sentence in [
        ([], "the prompts are of the models 'one', 'two'; a verdict is about one: --model NAME"),
                                (["--model", "three"],
                                 "--model: no prompt is of the model 'three'; they are of 'one', 'two'")]:
        assert validate(*options, *arguments, expect=2, cwd=tmp_path).stderr == f"attest: {sentence}\n"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["one.h5", "two.h5"]
    assert verdict(*options, "--model", "two", cwd=tmp_path, expect=3)["claim"]["n"] == 1


def test_a_dump_with_a_bad_layer(tmp_path):
    def values(random, layer):
        q, k, v = (random.normal(size=shape).astype(np.float32) for shape in [(2, 4, 64), (2, 200, 64), (2, 200, 64)])
        k[1, 7, 3] = np.nan if layer == 2 else 0
        return q, k, v

    write_dump(tmp_path / "d.h5", values, seed=1, layers=[0, 2], tokens=200, heads=4, kv_heads=2, dim=64,
               positions=[150, 199])
    options = ["d.h5", "--target", "recall>=0.5", "--claim", "observed", "--quiet"]
    error = validate(*options, expect=4, cwd=tmp_path).stderr
    assert "layer 2, k, head 1: NaN" in error and "a prompt without this layer cannot be judged" in error \
        and "--skip" not in error
    assert verdict(*options, "--layers", "0", "--results", "r.h5", cwd=tmp_path, expect=3)["claim"]["layers"] == [0]


def test_what_is_there_under_the_name_of_the_study_is_said(tmp_path):
    """A study goes on without being asked to; nobody has said --resume."""
    def values(random, layer):
        return tuple(random.normal(size=shape).astype(np.float32) for shape in [(2, 4, 64), (2, 200, 64), (2, 200, 64)])

    def dump(seed):
        write_dump(tmp_path / "d.h5", values, seed=seed, layers=[0], tokens=200, heads=4, kv_heads=2, dim=64,
                   positions=[150, 199], num_layers=1)

    def refused(code):
        return validate(*options, expect=code, cwd=tmp_path).stderr

    dump(1)
    results, advice = tmp_path / "d.study.h5", "; --results names another file, and --force replaces it\n"
    options = ["d.h5", "--target", "recall>=0.5", "--claim", "observed", "--selector", "topdelta", "--quiet"]
    validate(*options, expect=3, cwd=tmp_path)
    with h5py.File(results, "r+") as file:
        manifest = json.loads(file.attrs["manifest"])
        manifest["configuration"]["git_commit"] = "0123abc"
        file.attrs["manifest"] = json.dumps(manifest)
    said = refused(2)
    assert said.startswith("attest: 'd.study.h5' holds another study, of another version: attest ") \
        and said.endswith(advice)
    assert ", commit 0123abc, and this is attest " in said
    validate(*options, "--force", expect=3, cwd=tmp_path)
    dump(2)
    said = refused(2)
    assert said.startswith("attest: 'd.study.h5' holds another study, of other inputs: '") \
        and said.endswith("/d.h5' has other content" + advice)
    results.write_text("mine")
    said = refused(4)
    assert "d.study.h5" in said and said.endswith(advice) and "resume" not in said and results.read_text() == "mine"
    results.unlink()
    (tmp_path / "d.study.h5.partial").mkdir()
    (tmp_path / "d.study.h5.partial/study.json").write_text(json.dumps({"begun": "then", "study": {}}))
    assert refused(2) == ("attest: 'd.study.h5.partial' holds another study, of other inputs: 0 dumps, this command "
                          "has 1") + advice
    validate(*options, "--force", expect=3, cwd=tmp_path)
    assert not (tmp_path / "d.study.h5.partial").exists()
    results.unlink()
    (tmp_path / "d.study.h5.partial").mkdir()
    (tmp_path / "d.study.h5.partial/study.json").write_text("{")
    assert refused(4) == "attest: 'd.study.h5.partial/study.json' is damaged" + advice
    validate(*options, "--force", expect=3, cwd=tmp_path)
    assert not (tmp_path / "d.study.h5.partial").exists()
