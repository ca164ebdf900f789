"""Results files in Python: the dimension scales as h5py and xarray see them, attest.results, and its page's
examples."""

import re
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

from attest import results
from attest_program import ATTEST, attest

PAGE = Path(results.__file__).with_name("README.md")
SAMPLE = "dumps/0/samples/needle"
AXES = ("layer", "query", "head", "setting", "lambda", "token")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """results.h5 with selectors of each kind of setting; layer 0 is dense for quest."""
    folder = tmp_path_factory.mktemp("python")
    quiet = dict(check=True, capture_output=True, cwd=folder)
    subprocess.run([ATTEST, "synth", "-o", "dump.h5", "--tokens", "512", "--layers", "3", "--queries", "5"], **quiet)
    with h5py.File(folder / "dump.h5", "r+") as file:
        name, = file["samples"]
        file.move(f"samples/{name}", "samples/needle")
        file["samples/needle"].pop("spans", None)
        file["samples/needle/spans"] = np.array([[100, 105], [103, 108]])
    subprocess.run([ATTEST, "run", "dump.h5", "-o", "results.h5", "--selector", "exact", "--selector", "ffd",
                    "--selector",
                    "quest=quest:dense_layers=1", "--delta", "3,5,inf", "--budget", "128,25%", "--lambdas", "0.5,1"],
                   **quiet)
    return folder / "results.h5"


@pytest.fixture(scope="module")
def xarray():
    for name in ("h5netcdf", "pandas"):
        pytest.importorskip(name, reason=f"{name} is not installed (cmake/requirements-tests.txt)")
    return pytest.importorskip("xarray", reason="xarray is not installed (cmake/requirements-tests.txt)")


def data_sets(file):
    found = []
    file.visititems(lambda name, item: found.append(item) if isinstance(item, h5py.Dataset) else None)
    return found


def test_every_axis_of_a_group_is_attached_to_the_scale_of_its_name(study):
    with h5py.File(study) as file:
        assert len(file[SAMPLE]["ffd"]) > 25
        for data in data_sets(file):
            group, name = data.name.rsplit("/", 1)
            if data.is_scale:
                assert name in AXES if group != f"/{SAMPLE}" else name in ("layers", "query_positions")
                continue
            for axis, label in enumerate(data.attrs["DIMENSION_LABELS"]):
                scale = data.dims[axis][0]
                assert len(data.dims[axis]) == 1 and scale.name == f"{group}/{label}" \
                    and scale.shape == (data.shape[axis],)


def test_scales_list_what_they_are_attached_to(study):
    """REFERENCE_LIST, by which HDF5 finds the data sets when a scale is detached."""
    with h5py.File(study) as file:
        for data in data_sets(file):
            if not data.is_scale or data.parent.name == f"/{SAMPLE}":
                continue
            listed = {(file[reference].name, axis) for reference, axis in data.attrs["REFERENCE_LIST"]}
            expected = {(other.name, axis) for other in data.parent.values() if not other.is_scale
                        for axis in range(other.ndim) if other.dims[axis][0] == data}
            assert listed == expected and expected


def test_scales_hold_the_values_of_the_axes(study):
    with h5py.File(study) as file:
        sample = file[SAMPLE]
        for label in ("exact", "ffd", "quest", "scores"):
            group = sample[label]
            np.testing.assert_array_equal(group["layer"], sample["layers"])
            np.testing.assert_array_equal(group["query"], sample["query_positions"])
            np.testing.assert_array_equal(group["head"], np.arange(8))
            if label != "scores":
                np.testing.assert_array_equal(group["setting"], group["settings"])
                np.testing.assert_array_equal(group["lambda"], [0.5, 1])
                np.testing.assert_array_equal(group["token"], group["span_tokens"])
                assert group["token"][()].tolist() == [*range(100, 108)]


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_xarray_has_named_axes_and_coordinates(study, xarray, engine):
    if engine == "netcdf4":
        pytest.importorskip("netCDF4", reason="netCDF4 is not installed (cmake/requirements-tests.txt)")
    for label, settings in {"exact": 1, "ffd": 3, "quest": 2}.items():
        with xarray.open_dataset(study, engine=engine, group=f"{SAMPLE}/{label}") as group:
            assert dict(group.sizes) == {"layer": 3, "query": 5, "head": 8, "setting": settings, "lambda": 2,
                                         "token": 8}
            assert set(group.coords) == {*AXES, "setting_labels", "dense", "done"}
            assert group.recall.dims == ("layer", "query", "head", "setting")
            assert group.recall_layer.dims == ("layer", "query", "setting")
            assert group.span_token_heads.dims == ("layer", "query", "setting", "token")
            assert group.span_token_heads.sel(token=103).shape == (3, 5, settings)
            with h5py.File(study) as file:
                np.testing.assert_array_equal(group.recall, file[f"{SAMPLE}/{label}/recall"])
    with xarray.open_dataset(study, engine=engine, group=f"{SAMPLE}/quest") as quest:
        assert quest.dense.values.tolist() == [1, 0, 0] and quest.setting_labels.values.tolist() == ["128", "25%"]
    with xarray.open_dataset(study, engine=engine, group=f"{SAMPLE}/ffd") as ffd:
        assert ffd.scan_error_tail.dims == ("layer", "query", "head", "lambda")
        chosen = ffd.lse_error.sel(layer=2, query=511, head=7, setting=np.inf)
        with h5py.File(study) as file:
            assert chosen == file[f"{SAMPLE}/ffd/lse_error"][2, -1, 7, 2]
    with xarray.open_dataset(study, engine=engine, group=f"{SAMPLE}/scores") as scores:
        assert set(scores.coords) == {"layer", "query", "head"} and scores.entropy.dims == ("layer", "query", "head")
    with xarray.open_dataset(study, engine=engine) as root:
        assert root.attrs["format"] == "attention-study"


def test_the_examples_of_the_page(study, xarray, capsys, monkeypatch):
    monkeypatch.chdir(study.parent)
    scopes = []
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        scopes.append({})
        exec(block, scopes[-1])
    assert len(scopes) == 4
    with h5py.File(study) as file:
        worst = file[f"{SAMPLE}/ffd/recall"][..., 1].min((1, 2))
    for scope in (scopes[1], scopes[3]):
        np.testing.assert_array_equal(scope["ffd"].recall.sel(setting=5).min(["query", "head"]), worst)
    assert "['exact', 'ffd', 'quest']" in capsys.readouterr().out


def test_a_selector_that_the_study_lacks_is_refused(study, xarray):
    for chosen in (["ffd", "no_such"], ["no_such"]):
        with pytest.raises(ValueError, match="has no selector no_such, expected some of exact, ffd, quest"):
            results.cells(study, selectors=chosen)
    with pytest.raises(ValueError, match="results.h5: sample .* has no selector no_such, expected one of scores, "
                                         "exact, ffd, quest"):
        results.dataset(study, "no_such")


@pytest.mark.parametrize("chosen, sentence", [
    ({"dump": 1}, "results.h5: has no dump 1, expected one of 0"),
    ({"sample": "x"}, "results.h5: dump 0 has no sample x, expected one of needle")])
def test_a_place_that_the_study_lacks_is_refused(chosen, sentence, study, xarray):
    with pytest.raises(ValueError, match=sentence):
        results.dataset(study, "ffd", **chosen)


def test_a_dump_without_samples_is_refused(xarray, tmp_path):
    with h5py.File(tmp_path / "r.h5", "w") as file:
        file.attrs["format"] = "attention-study"
        file.create_group("dumps/0/samples")
    for sample in (None, "x"):
        with pytest.raises(ValueError, match="r.h5: dump 0 has no samples$"):
            results.dataset(tmp_path / "r.h5", "ffd", sample)


@pytest.mark.parametrize("call", [results.manifest, results.selectors, results.cells,
                                  lambda path: results.dataset(path, "ffd")])
def test_a_file_that_is_no_results_file_is_refused(call, study, xarray, tmp_path):
    dump, text, empty = study.with_name("dump.h5"), tmp_path / "text.h5", tmp_path / "empty.h5"
    text.write_text("no HDF5")
    unfinished = tmp_path / "r.h5.partial"
    unfinished.mkdir()
    h5py.File(empty, "w").close()
    expected = "expected a results file of attest run"
    for path, found in (dump, "found format attention-dump"), (empty, "found format None"), (text, "found something"):
        with pytest.raises(ValueError, match=f"^{path}: {expected}.*, {found}"):
            call(path)
    for path, kind in (unfinished, IsADirectoryError), (tmp_path / "absent.h5", FileNotFoundError):
        with pytest.raises(kind, match=path.name):
            call(path)


def test_a_name_alone_is_a_list_of_one(study, xarray):
    one = results.cells(study, "recall", "ffd")
    assert set(one.selector) == {"ffd"} and "recall" in one
    assert one.equals(results.cells(study, ["recall"], ["ffd"]))


def test_all_cells_of_a_study_are_one_frame(study, xarray):
    cells = results.cells(study)
    assert len(cells) == 3 * 5 * 8 * (1 + 3 + 2)
    with h5py.File(study) as file:
        sample = file[SAMPLE]
        rows = cells.sample(200, random_state=1)
        for row in rows.itertuples():
            group = sample[row.selector]
            s = group["setting_labels"].asstr()[()].tolist().index(row.setting_label)
            place = (list(sample["layers"]).index(row.layer), list(sample["query_positions"]).index(row.query),
                     row.head)
            assert row.recall == group["recall"][(*place, s)] and row.entropy == sample["scores/entropy"][place]
            assert row.recall_layer == group["recall_layer"][(*place[:2], s)] and row.setting == group["settings"][s]
            assert row.dense == group["dense"][place[0]] and row.sample == "needle"
            if row.selector == "ffd":
                assert row.spearman == group["spearman"][place]
        assert set(rows.selector) == {"exact", "ffd", "quest"} and rows.dense.any() and not rows.dense.all()
        assert {"lambdas", "scan_error_tail", "span_token_heads"}.isdisjoint(cells.columns)
        assert cells[cells.selector == "quest"].block_keep_ratio.isna().all(), "a metric of ffd alone"


def test_a_part_of_the_cells(study, xarray):
    cells = results.cells(study, metrics=["lse_error"], selectors=["quest"])
    assert list(cells)[-3:] == ["setting_label", "dense", "lse_error"] and set(cells.selector) == {"quest"}
    for wrong in ({"metrics": ["recal"]}, {"selectors": ["x"]}):
        with pytest.raises(ValueError, match="results.h5: has no (metric recal|selector x)"):
            results.cells(study, **wrong)


def test_layers_that_were_not_computed_have_no_rows(study, xarray, tmp_path):
    part = tmp_path / "part.h5"
    part.write_bytes(study.read_bytes())
    with h5py.File(part, "r+") as file:
        file[f"{SAMPLE}/ffd/done"][1] = 0
    cells = results.cells(part, metrics=["recall"])
    assert set(cells[cells.selector == "ffd"].layer) == {0, 2} \
        and set(cells[cells.selector == "quest"].layer) == {0, 1, 2}


def test_files_without_scales_are_still_read(study, tmp_path):
    """As older versions of the program wrote them, and as h5py writes them by default."""
    old = tmp_path / "old.h5"
    old.write_bytes(study.read_bytes())
    with h5py.File(old, "r+") as file:
        for data in data_sets(file):
            for attribute in ("DIMENSION_LIST", "REFERENCE_LIST", "CLASS"):
                if attribute in data.attrs:
                    del data.attrs[attribute]
        for group in file[SAMPLE].values():
            for name in AXES:
                if isinstance(group, h5py.Group) and name in group:
                    del group[name]
    report = [subprocess.run([ATTEST, "table", path, "--json"], check=True, capture_output=True).stdout
              for path in (study, old)]
    assert report[0] == report[1]
    attest("inspect", "--check", old)
