"""`attest monitor`: the martingales worked out again, exit codes, and what is refused."""

import json
import math

import h5py
import numpy as np
import pytest
from attest_program import attest
from dump_maker import write_dump
from near import CLOSE
from planted_results import recalls, write_planted
from verdicts import TARGET, planted, validate



def monitor(*arguments, expect=0, cwd=None):
    return attest("monitor", *arguments, cwd=cwd, expect=expect)


@pytest.fixture
def recommended(tmp_path):
    rng = np.random.default_rng(5)
    recall = 1 - rng.uniform(0, 0.02, (60, 2, 2, 4, 3))
    path = write_planted(tmp_path / "r.h5", {"recall": recall, "io_ratio": recall})
    validate(path, "--target", TARGET, "-o", tmp_path / "rec.json")
    return tmp_path / "rec.json"


def later(path, prompts, bad=(), low=0.0, high=0.02, seed=9):
    """Recalls like those that certified; the prompts `bad` violate."""
    recall = 1 - np.random.default_rng(seed).uniform(low, high, (prompts, 2, 2, 4, 3))
    for p in bad:
        recall[p, 0, 0, 0] = 0.5
    return write_planted(path, {"recall": recall}, dump=path.name, names=[f"n{p:03}" for p in range(prompts)])


def share_evidence(violations, beta):
    """Capital of 24 fixed bets, whose mean is the largest so far."""
    bets = [((i + 0.5) / 24) ** 2 / beta for i in range(24)]
    capital, largest = np.ones(24), 1.0
    for v in violations:
        capital *= [1 + bet * (v - beta) for bet in bets]
        largest = max(largest, capital.mean())
    return largest


def violations(found, bad):
    """Of the prompts in the order in which they were tested."""
    return [name in {f"n{p:03}" for p in bad} for name in found["order"]]


def test_prompts_like_those_that_certified(recommended, tmp_path):
    bad = [3, 17]
    done = monitor(recommended, later(tmp_path / "n.h5", 40, bad))
    assert done.stdout.startswith("no evidence against the guarantee\n") \
        and "2 of 40 prompts miss a target" in done.stdout
    found = json.loads(monitor(recommended, tmp_path / "n.h5", "--json").stdout)
    assert (found["n"], found["k"], found["needed"]) == (40, 2, pytest.approx(20))
    assert found["guarantee"]["evidence"] == pytest.approx(share_evidence(violations(found, bad), 0.1), rel=CLOSE)
    assert "a false alarm, ever, has a chance of at most 5 %, one of either test at most 10 %" in done.stdout
    assert found["notes"] == []
    assert not found["guarantee"]["alarm"] and not found["drift"]["alarm"]


def test_one_prompt_is_one_prompt(recommended, tmp_path):
    assert "0 of 1 prompt miss a target" in monitor(recommended, later(tmp_path / "n.h5", 1)).stdout


def test_prompts_without_a_number_are_no_absence_of_evidence(recommended, tmp_path):
    nothing = np.full((5, 2, 2, 4, 3), np.nan)
    later_results = write_planted(tmp_path / "n.h5", {"recall": nothing}, dump="n.h5",
                                  names=[f"n{p}" for p in range(5)])
    done = monitor(recommended, later_results, expect=4)
    assert done.stdout == "" and "no prompt has a number for a target of" in done.stderr


def test_too_many_violations(recommended, tmp_path):
    bad = range(14)
    found = json.loads(monitor(recommended, later(tmp_path / "n.h5", 30, bad), "--json", expect=3).stdout)
    assert found["guarantee"]["alarm"] and found["text"].startswith("broken: ")
    seen = violations(found, bad)
    after = next(n for n in range(31) if share_evidence(seen[:n], 0.1) >= 20)
    assert found["guarantee"]["after"] == after and found["guarantee"]["prompt"] == found["order"][after - 1]


def test_the_order_of_names_is_no_order_in_time(recommended, tmp_path):
    """A dump holds its prompts by name, which sorts them by task: those of the hard task come first, and miss the
    target as often as they may among all. Tested in that order they would be an alarm; those of one dump are drawn,
    dumps stay in the order given."""
    bad = range(5)
    assert share_evidence([p in bad for p in range(60)], 0.1) > 20
    found = json.loads(monitor(recommended, later(tmp_path / "n.h5", 60, bad), "--json").stdout)
    assert found["k"] == 5 and not found["guarantee"]["alarm"] and not found["drift"]["alarm"]
    assert sorted(found["order"]) == [f"n{p:03}" for p in range(60)] != found["order"]
    more = write_planted(tmp_path / "m.h5", {"recall": 1 - np.random.default_rng(3).uniform(0, 0.02, (20, 2, 2, 4, 3))},
                         dump="m.h5",
                         names=[f"a{p:03}" for p in range(20)])
    both = json.loads(monitor(recommended, tmp_path / "n.h5", more, "--json").stdout)["order"]
    assert both[:60] == found["order"] and {name[0] for name in both[60:]} == {"a"}, "what came before keeps its order"


def test_prompts_of_another_kind_are_said(recommended, tmp_path):
    recall = 1 - np.random.default_rng(4).uniform(0, 0.02, (12, 2, 3, 4, 3))
    new = write_planted(tmp_path / "n.h5", {"recall": recall}, dump="n.h5", tasks=["t"] * 8 + ["other"] * 4,
                        lengths=[1001] * 10 + [4096] * 2,
                        names=[f"n{p:03}" for p in range(12)])
    notes = json.loads(monitor(recommended, new, "--json").stdout)["notes"]
    assert [note[:9] for note in notes] == ["4 of 12 p", "2 of 12 p", "3 queries"] \
        and notes[0].endswith("tasks that no certifying prompt is of: other")
    assert "1000 tokens" in notes[1] and "2 of the certifying" in notes[2]
    assert all(f"  note         {note}" in monitor(recommended, new).stdout for note in notes)


@pytest.mark.parametrize("low, high, worse", [(0.04, 0.06, True), (0.0, 0.0002, False)])
def test_drift_is_told_apart(recommended, tmp_path, low, high, worse):
    """All prompts meet the target, but they are not like those that certified."""
    found = json.loads(monitor(recommended, later(tmp_path / "n.h5", 40, low=low, high=high), "--json",
                               expect=3).stdout)
    assert found["k"] == 0 and not found["guarantee"]["alarm"] and found["drift"]["alarm"] \
        and found["drift"]["worse"] == worse
    assert found["text"].startswith("drift: ")


def test_prompts_of_one_document_count_once(tmp_path):
    """A bad prompt in 12 of 40 documents of three: 10 % of the prompts, and 30 % of the documents."""

    def with_documents(name, bad):
        recall = recalls(120)
        recall[[3 * document for document in range(bad)], 0, 0, 0] = 0.5
        path = write_planted(tmp_path / name, {"recall": recall}, dump=name,
                             names=[f"{name}{p:03}" for p in range(120)])
        with h5py.File(path, "r+") as file:
            for p, sample in enumerate(file["dumps/0/samples"].values()):
                sample.attrs["document"] = f"{name}{p // 3}"
        return path

    certified, later_ones = with_documents("certified.h5", 0), with_documents("later.h5", 12)
    for name, cluster, n, code in (("prompts", [], 120, 0), ("documents", ["--cluster", "document"], 40, 3)):
        validate(certified, "--target", TARGET, *cluster, "-o", tmp_path / f"{name}.json")
        found = json.loads(monitor(tmp_path / f"{name}.json", later_ones, "--json", expect=None).stdout)
        assert (found["n"], found["k"]) == (n, 12)
        assert found["guarantee"]["alarm"] == (code == 3)
        expected = share_evidence([1] * 12 + [0] * (n - 12), 0.1)  # the worst order
        assert found["guarantee"]["evidence"] <= expected * (1 + 1e-9) \
            and (found["guarantee"]["evidence"] >= 20) == (code == 3)
        if cluster:
            assert f"; it came with number {found['guarantee']['after']} of the groups of prompts of one document\n" \
                in found["text"]


@pytest.mark.parametrize("change, sentence", [({"kind": "observed", "beta": 0},
                                               'claim.kind is "observed", expected prompts or mean: what was only '
                                               'observed certifies nothing'),
                                              ({"beta": 0}, "no number of prompts shows that none ever violates")])
def test_what_certifies_nothing_is_refused(recommended, tmp_path, change, sentence):
    document = json.loads(recommended.read_text())
    document["claim"] |= change
    recommended.write_text(json.dumps(document))
    assert sentence in monitor(recommended, later(tmp_path / "n.h5", 20), expect=4).stderr


def test_settings_of_kv_heads(tmp_path):
    path = planted(tmp_path / "r.h5", 60, [60, 0, 0])
    validate(path, "--target", TARGET, "--per", "kv_head", "-o", tmp_path / "rec.json")
    recall = recalls(30, value=0.99)
    recall[:, 1, 1, 2, 0] = 0.5  # the head that keeps more is at another setting
    new = write_planted(tmp_path / "n.h5", {"recall": recall}, dump="n.h5", names=[f"n{p}" for p in range(30)])
    assert json.loads(monitor(tmp_path / "rec.json", new, "--json", expect=3).stdout)["k"] == 0
    recall[:, 0, 1, 2, 0] = 0.5
    new = write_planted(tmp_path / "m.h5", {"recall": recall}, dump="m.h5", names=[f"m{p}" for p in range(30)])
    assert json.loads(monitor(tmp_path / "rec.json", new, "--json", expect=3).stdout)["k"] == 30


@pytest.mark.parametrize("options", [["--selector", "topdelta:gqa=union"], ["--selector", "topdelta", "--per", "layer"],
                                     ["--selector", "topk", "--layers", "2"]])
def test_dumps_are_studied_at_the_recommended_settings(tmp_path, options):
    def values(random, layer):
        return tuple(random.normal(size=shape).astype(np.float32) for shape in [(2, 4, 64), (2, 200, 64), (2, 200, 64)])

    for name, seed in (("d.h5", 1), ("later.h5", 6)):
        write_dump(tmp_path / name, values, seed=seed, layers=[0, 2], tokens=200, heads=4, kv_heads=2, dim=64,
                   positions=[150, 199],
                   samples=[f"{name[0]}{i:02}" for i in range(12)], num_layers=3)
    target = ["--target", "recall>=0.9", "--max-violating", "60%"]
    validate("d.h5", *target, *options, "-o", "rec.json", cwd=tmp_path)
    done = monitor(tmp_path / "rec.json", "later.h5", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    recall = []
    with h5py.File(tmp_path / "later.study.h5") as file:
        for sample in file["dumps/0/samples"].values():
            (label,) = (name for name in sample if name.startswith("top"))
            assert "--per" in options or len(sample[label]["settings"]) == 1, "the recommended setting alone"
            assert set(sample["layers"][()]) == ({2} if "2" in options else {0, 2})
            recall.append(sample[label]["recall"][..., 0].mean())
    assert found["n"] == 12
    if "--per" not in options:
        assert found["k"] == sum(value < 0.9 for value in recall)
    assert json.loads(monitor(tmp_path / "rec.json", "later.study.h5", "--json", cwd=tmp_path).stdout) == found
    refused = monitor(tmp_path / "rec.json", "d.h5", cwd=tmp_path, expect=2).stderr
    assert "holds the prompts that certified" in refused
    refused = monitor(tmp_path / "rec.json", "d.h5", "--results", "again.h5", cwd=tmp_path, expect=2).stderr
    assert refused.startswith("attest: d.h5 holds the prompts that certified") \
        and not (tmp_path / "again.h5").exists(), "before the study"
    assert "belong to the study of dumps" in monitor(
        tmp_path / "rec.json", "later.study.h5", "--queries", "last:1", cwd=tmp_path, expect=2).stderr
    assert "give dumps or results" in monitor(tmp_path / "rec.json", "later.h5", "later.study.h5", cwd=tmp_path,
                                              expect=2).stderr


def test_options_that_a_program_did_not_know_yet_have_their_defaults(recommended, tmp_path):
    recall = 1 - np.random.default_rng(2).uniform(0, 0.02, (20, 2, 2, 4, 3))
    new = write_planted(tmp_path / "n.h5", {"recall": recall}, dump="n.h5", options={"bits": "2", "settings_file": ""},
                        names=[f"n{p}" for p in range(20)])
    assert json.loads(monitor(recommended, new, "--json").stdout)["n"] == 20


def test_another_models_dump_is_refused_before_it_is_studied(recommended, tmp_path):
    def values(random, layer):
        return tuple(random.normal(size=shape).astype(np.float32) for shape in [(2, 4, 64), (2, 200, 64), (2, 200, 64)])

    write_dump(tmp_path / "d.h5", values, seed=1, layers=[0, 1], tokens=200, heads=4, kv_heads=2, dim=64,
               positions=[150, 199], samples=["a"], num_layers=2)
    with h5py.File(tmp_path / "d.h5", "r+") as file:
        file.attrs["model"] = "another"
    refused = monitor(recommended, "d.h5", cwd=tmp_path, expect=2).stderr
    assert "d.h5 is of the model 'another'" in refused and "is for 'tiny'" in refused and "--model" not in refused
    assert not (tmp_path / "d.study.h5").exists()


def test_the_recommendation_is_no_output(recommended, tmp_path):
    write_tiny_dump(tmp_path / "d.h5")
    before = recommended.read_bytes()
    refused = monitor("rec.json", "d.h5", "--results", "rec.json", "--force", cwd=tmp_path, expect=2).stderr
    assert "'rec.json' is both a file to read and the results to write" in refused
    assert recommended.read_bytes() == before and {
        path.name for path in tmp_path.iterdir()} == {"d.h5", "r.h5", "rec.json"}


def test_a_model_of_another_shape_is_refused(recommended, tmp_path):
    recall = 1 - np.random.default_rng(3).uniform(0, 0.02, (20, 3, 2, 4, 3))
    deeper = write_planted(tmp_path / "deeper.h5", {"recall": recall}, dump="deeper.h5",
                           names=[f"n{p}" for p in range(20)])
    refused = monitor(recommended, deeper, expect=2).stderr
    assert "deeper.h5 is of a model with 3 layers, 4 query and 2 KV heads, and" in refused
    assert "is for one with 2 layers, 4 query and 2 KV heads" in refused
    earlier = json.loads(recommended.read_text())
    assert earlier.pop("shape") == {"layers": 2, "query_heads": 4, "kv_heads": 2}
    (tmp_path / "earlier.json").write_text(json.dumps(earlier))  # of a program that wrote none
    assert monitor(tmp_path / "earlier.json", deeper).stdout.startswith("no evidence against the guarantee")


def test_what_is_refused(recommended, tmp_path):
    assert "certified" in monitor(recommended, tmp_path / "r.h5", expect=2).stderr
    other = write_planted(tmp_path / "o.h5", {"recall": recalls(5)}, options={"bits": "4"}, dump="o.h5")
    assert "no selector ffd with the options" in monitor(recommended, other, expect=2).stderr
    coarse = write_planted(tmp_path / "c.h5", {"recall": recalls(5, settings=1)}, settings=(9,), dump="c.h5")
    assert "was not studied at" in monitor(recommended, coarse, expect=2).stderr
    assert "gone.json" in monitor(tmp_path / "gone.json", other, expect=4).stderr
    old = json.loads(recommended.read_text())
    del old["certified_on"]
    (tmp_path / "old.json").write_text(json.dumps(old))
    assert "certified_on" in monitor(tmp_path / "old.json", other, expect=4).stderr
    assert math.isfinite(json.loads(recommended.read_text())["certified_on"][0][0])


def write_tiny_dump(path):
    """Two layers of random values, of the model that `recommended` is for."""
    def values(random, layer):
        return tuple(random.normal(size=shape).astype(np.float32) for shape in [(2, 4, 64), (2, 200, 64), (2, 200, 64)])

    write_dump(path, values, seed=1, layers=[0, 1], tokens=200, heads=4, kv_heads=2, dim=64, positions=[150, 199],
               num_layers=2)
    with h5py.File(path, "r+") as file:
        file.attrs["model"] = "tiny"


@pytest.mark.parametrize("change, text", [
    ({"format_version": 2}, "format_version is 2, expected 1"),
    ({"setting": "x"}, "setting is \"x\", expected one of "),
    ({"layers": {"7": {"default": 5}}}, "layers.7 is no layer of "),
    ({"layers": {"1": {"kv_heads": {"2": 5}}}}, "layers.1.kv_heads.2 is no KV head of "),
    ({"layers": {"x": {}}}, "layers.x has no number of a layer as its name"),
    ({"layers": {"1": {"heads": {}}}}, "layers.1.heads is unknown"),
    ({"default": "nan"}, "default is \"nan\", expected a number of at least 0, \"inf\" or \"dense\""),
    ({"default": -5}, "default is -5, expected a number of at least 0"),
    ({"default": "5:7:1"}, "default is \"5:7:1\", expected a number"),
    ({"setting": "p", "default": 2}, "default is 2, expected "),
    ({"setting": "budget", "default": "5"}, "default is \"5\", expected "),
    ({"setting": "none", "default": 5}, "default is 5, expected \"none\""),
    ({"setting": "label", "candidates": [], "default": "a"}, "default is \"a\", expected \"dense\""),
    ({"claim": {"n": -3}}, "claim.n is -3, expected a whole number"),
    ({"claim": {"k": "2"}}, "claim.k is \"2\", expected a whole number"),
    ({"claim": {"layers": [0, 9]}}, "claim.layers has 9, which is no layer of ")])
def test_a_recommendation_is_checked_as_a_settings_file_is(recommended, tmp_path, change, text):
    write_tiny_dump(tmp_path / "d.h5")
    later(tmp_path / "n.h5", 5)
    document = json.loads(recommended.read_text())
    claim = document["claim"] | change.get("claim", {})
    (tmp_path / "bad.json").write_text(json.dumps(document | change | {"claim": claim}))
    for later_prompts in "d.h5", "n.h5":
        refused = monitor("bad.json", later_prompts, cwd=tmp_path, expect=4).stderr
        assert refused.startswith("attest: bad.json: " + text) and refused.count("\n") == 1 and "--" not in refused, \
            refused
    assert not (tmp_path / "d.study.h5").exists()


@pytest.mark.parametrize("change, text", [
    ({"name": "gone"}, "the selector 'gone': "), (
        {"name": "topk"}, "the selector 'topk': its settings are budget, and the file has delta")])
def test_a_selector_that_cannot_be_studied_is_the_files(recommended, tmp_path, change, text):
    write_tiny_dump(tmp_path / "d.h5")
    document = json.loads(recommended.read_text())
    document["selector"] |= change
    (tmp_path / "bad.json").write_text(json.dumps(document))
    refused = monitor("bad.json", "d.h5", cwd=tmp_path, expect=4).stderr
    assert refused.startswith("attest: bad.json: " + text) and not (tmp_path / "d.study.h5").exists(), refused


@pytest.mark.parametrize("change, text", [
    ({"selector": {"name": "f" * 20000, "options": {}}}, "the selector 'ffff"),
    ({"selector": {"name": "ffd", "options": {"b" * 20000: "1"}}},
     "the selector 'ffd': selector 'ffd' has no option 'bbbb"),
    ({"setting": "label", "default": "a", "candidates": [{"candidate": "\u0085\u202e"}]}, "default is \"a\", expected "
     "one of \"dense\", \"\\u0085\\u202e\""),
    ({"setting": "label", "default": "a", "candidates": [{"candidate": "c" * 20000}]},
     "default is \"a\", expected one of \"dense\", \"cccc")])
def test_names_of_the_file_are_made_fit_for_a_terminal(recommended, tmp_path, change, text):
    write_tiny_dump(tmp_path / "d.h5")
    (tmp_path / "bad.json").write_text(json.dumps(json.loads(recommended.read_text()) | change))
    refused = monitor("bad.json", "d.h5", cwd=tmp_path, expect=4).stderr
    assert refused.startswith("attest: bad.json: " + text) and refused.count("\n") == 1 and len(refused) < 2000, refused
