"""settings_file on the real executable: grid, cells, what is refused, manifest, --resume, figures."""

import json
import subprocess

import h5py
import numpy as np
import pytest

from attest_program import ATTEST, attest, run_attest
import dump_maker

HEADS, KV_HEADS, DIM, TOKENS, POSITIONS, LAYERS = 4, 2, 16, 700, (500, 699), (0, 3)


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    return write_dump(tmp_path_factory.mktemp("dump") / "dump.h5")


def write_dump(path, bad_layer=None):
    def values(random, layer):
        q = random.standard_normal((len(POSITIONS), HEADS, DIM))
        k, v = random.standard_normal((2, KV_HEADS, TOKENS, DIM))
        if layer == bad_layer:
            k[0, 0, 0] = np.nan
        return q.astype(np.float32), 2 * k.astype(np.float32), v.astype(np.float32)

    dump_maker.write_dump(path, values, seed=5, layers=LAYERS, tokens=TOKENS, heads=HEADS, kv_heads=KV_HEADS,
                          dim=DIM, positions=POSITIONS)
    return path


def recommendation(**members):
    return {"format": "attest-recommendation", "format_version": 1, "setting": "delta", "default": 1.5,
            "layers": {"3": {"default": 0.5, "kv_heads": {"1": "dense"}}}, **members}


def write(path, document):
    path.write_text(json.dumps(document))
    return path


def run(dump, out, *arguments, expect=0):
    return attest("run", dump, "-o", out, "--device", "cpu", *arguments, expect=expect)


def group(results, label):
    with h5py.File(results) as file:
        return {name: data[()] for name, data in file[f"dumps/0/samples/s/{label}"].items()}


def same(a, b):
    return np.array_equal(a, b, equal_nan=True)


@pytest.mark.parametrize("name", ["ffd", "topdelta", "skip_softmax"])
def test_each_head_has_the_delta_of_its_own(dump, tmp_path, name):
    file = write(tmp_path / "rec.json", recommendation(selector=name))
    run(dump, tmp_path / "r.h5", "--selector", f"rec={name}:settings_file={file}", "--selector", f"plain={name}",
        "--selector", "exact")
    run(dump, tmp_path / "at.h5", "--selector", f"plain={name}", "--delta", "1.5,0.5")
    rec, exact = group(tmp_path / "r.h5", "rec"), group(tmp_path / "r.h5", "exact")
    plain = group(tmp_path / "at.h5", "plain")
    assert [label.decode() for label in rec["setting_labels"]] == ["0"]
    assert len(group(tmp_path / "r.h5", "plain")["settings"]) == 23, "the other selector keeps its grid"
    for metric in ("recall", "lse_error", "keep_ratio", "io_ratio", "salient_hit_rate", "salient_ratio"):
        assert same(rec[metric][0, ..., 0], plain[metric][0, ..., 0]), metric
        assert same(rec[metric][1, :, :2, 0], plain[metric][1, :, :2, 1]), metric
        assert same(rec[metric][1, :, 2:, 0], exact[metric][1, :, 2:, 0]), metric
    assert (rec["io_ratio"][1, :, 2:] == 1).all() and (rec["recall"][1, :, 2:] == 1).all()
    assert not rec["dense"].any()


def test_a_typed_grid_is_added(dump, tmp_path):
    file = write(tmp_path / "rec.json", recommendation())
    run(dump, tmp_path / "r.h5", "--selector", f"rec=ffd:settings_file={file}",
        "--selector", "ffd", "--delta", "0,1,inf")
    run(dump, tmp_path / "at.h5", "--selector", "ffd", "--delta", "0.5,1.5,2.5")
    rec, at = group(tmp_path / "r.h5", "rec"), group(tmp_path / "at.h5", "ffd")
    assert same(rec["keep_ratio"][0, ..., :2], at["keep_ratio"][0, ..., 1:])
    assert same(rec["keep_ratio"][1, :, :2, :2], at["keep_ratio"][1, :, :2, :2])
    assert len(group(tmp_path / "r.h5", "ffd")["settings"]) == 3
    estimates = rec["spearman"]
    assert np.isnan(estimates[1, :, 2:]).all() and not np.isnan(estimates[1, :, :2]).any()


def test_validate_judges_the_file_as_it_stands(dump, tmp_path):
    file = write(tmp_path / "rec.json", recommendation())
    command = [ATTEST, "validate", dump, "--selector", f"rec=ffd:settings_file={file}", "--target", "recall>=0.1",
               "--claim", "observed",
               "--results", tmp_path / "r.h5", "--json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert [setting["setting"] for setting in json.loads(done.stdout)["settings"]] == [0], done.stderr


def test_a_layer_that_is_dense_in_every_head_is_marked(dump, tmp_path):
    file = write(tmp_path / "rec.json", recommendation(layers={"3": {"default": "dense"}}))
    done = run(dump, tmp_path / "r.h5", "--selector", f"rec=ffd:settings_file={file}")
    assert list(group(tmp_path / "r.h5", "rec")["dense"]) == [0, 1]
    assert "3" in done.stdout


def test_other_models_are_warned_of(dump, tmp_path):
    file = write(tmp_path / "rec.json", recommendation(model="other"))
    done = run(dump, tmp_path / "r.h5", "--selector", f"rec=ffd:settings_file={file}")
    assert (f"warning: the settings of {file} were made for the model 'other', and "
            f"{dump} is of 'test/model'") in done.stderr
    file = write(tmp_path / "rec.json", recommendation(model="test/model"))
    assert "warning" not in run(dump, tmp_path / "s.h5", "--selector", f"rec=ffd:settings_file={file}").stderr


@pytest.mark.parametrize("change,code,sentence", [
    ({"default": -1}, 4, 'default is -1, expected a number of at least 0, "inf" or "dense"'),
    ({"layers": {"6": {}}}, 4, "layers.6 is no layer of"),
    ({"layers": {"0": {"kv_heads": {"2": 1}}}}, 4, "layers.0.kv_heads.2 is no KV head of"),
    ({"selector": "topdelta"}, 2, "has settings for selector 'topdelta'"),
    ({"selector": {"name": "ffd", "options": {"gqa": "per_head"}}}, 2, "option 'gqa' is 'union', and"),
])
def test_what_does_not_fit_is_refused(dump, tmp_path, change, code, sentence):
    file = write(tmp_path / "rec.json", recommendation(**change))
    done = run(dump, tmp_path / "r.h5", "--selector", f"rec=ffd:settings_file={file}", expect=code)
    assert sentence in done.stderr and str(file) in done.stderr and len(done.stderr.strip().splitlines()[-1:]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rec.json"]


def test_files_that_cannot_be_read_are_refused(dump, tmp_path):
    for path in (tmp_path / "none.json", tmp_path, "/dev/zero"):
        done = run(dump, tmp_path / "r.h5", "--selector", f"rec=ffd:settings_file={path}", expect=4)
        assert str(path) in done.stderr


def test_the_manifest_has_the_file(dump, tmp_path):
    file = write(tmp_path / "rec.json", recommendation())
    run(dump, tmp_path / "r.h5", "--selector", f"rec=ffd:settings_file={file}")
    with h5py.File(tmp_path / "r.h5") as results:
        manifest = json.loads(results.attrs["manifest"])
    assert [entry["path"] for entry in manifest["inputs"]] == [str(dump), str(file)]
    assert manifest["inputs"][1]["xxh64_of_1MiB"]
    assert manifest["configuration"]["selectors"][0]["options"]["settings_file"] == str(file)


def test_a_changed_file_is_not_resumed_with(tmp_path):
    dump = write_dump(tmp_path / "dump.h5", bad_layer=3)
    file = write(tmp_path / "rec.json", recommendation())
    chosen = ["--selector", f"rec=ffd:settings_file={file}", "--threads", "1"]
    run(dump, tmp_path / "r.h5", *chosen, expect=4)
    assert (tmp_path / "r.h5.partial").is_dir()
    write(tmp_path / "rec.json", recommendation(default=2.5))
    done = run(dump, tmp_path / "r.h5", "--resume", *chosen, expect=4)
    assert f" began the study with another '{file}' than process " in done.stderr and "of other content" in done.stderr


def test_figures_about_one_delta_leave_it_out(dump, tmp_path):
    file = write(tmp_path / "rec.json", recommendation())
    run(dump, tmp_path / "r.h5", "--selector", f"rec=ffd:settings_file={file}", "--delta", "0,5,7")
    names = ["guarantee", "error_bound", "delta_validation", "headwise", "failure_cases", "layer_sparsity"]
    done = run_attest("figures", tmp_path / "r.h5", "-o", tmp_path / "f", "--only", ",".join(names))
    text = done.stdout + done.stderr
    assert text.count("not of 'rec': a settings_file gives KV heads deltas of their own") == len(names), text
    run(dump, tmp_path / "both.h5", "--selector", f"rec=ffd:settings_file={file}",
        "--selector", "ffd", "--delta", "0,5,7")
    attest("figures", tmp_path / "both.h5", "-o", tmp_path / "g", "--only", "guarantee,quality_ladder")
    assert "rec" not in (tmp_path / "g/guarantee.csv").read_text()
    assert "rec" in (tmp_path / "g/quality_ladder.csv").read_text()
    attest("claims", tmp_path / "r.h5")
    assert subprocess.run([ATTEST, "report", tmp_path / "both.h5", "-o", tmp_path / "r.html"]).returncode == 0


def test_the_oracles_still_form_a_family(dump, tmp_path):
    """rule_comparison needs topk, topp and topdelta with equal options; topdelta alone has settings_file."""
    file = write(tmp_path / "rec.json", recommendation(selector="topdelta"))
    run(dump, tmp_path / "r.h5", "--selector", f"mine=topdelta:settings_file={file}",
        *(f"--selector={n}" for n in ("topk", "topp", "topdelta")), "--delta", "0:6:0.5", "--budget", "4,16,64,256")
    done = run_attest("figures", tmp_path / "r.h5", "-o", tmp_path / "f", "--only", "rule_comparison")
    assert done.returncode == 0 and (tmp_path / "f/rule_comparison.csv").exists(), done.stdout + done.stderr
    assert "mine" not in (tmp_path / "f/rule_comparison.csv").read_text()
