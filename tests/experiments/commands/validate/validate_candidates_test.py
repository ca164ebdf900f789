"""`attest validate --candidates`: a fixed sequence over labels, labels per layer, and files for engines."""

import json

import h5py
import numpy as np
import pytest
from attest_program import attest, run_attest
from near import CELL, CLOSE
from planted_results import recalls, write_planted
from verdicts import TARGET, cdf, check_evidence, validate, verdict

FP8, NVFP4, Q8 = ({"k": name, "v": name} for name in ("fp8_e4m3", "nvfp4", "q8_0"))
LABELS = {"exact": ("exact", {}), "kv_q8": ("kv_cache", Q8), "kv_fp8": ("kv_cache", FP8),
          "kv_nvfp4": ("kv_cache", NVFP4)}


def write_labels(path, bad, prompts=60, layers=3, labels=None, dense=None, **more):
    """`bad`: label -> [(prompts with a bad cell, layer)]; the results also have ffd at 3, 5, 7 without a bad cell."""
    labels = labels or LABELS
    recall = recalls(prompts, layers=layers)
    write_planted(path, {"recall": recall, "io_ratio": np.full_like(recall, 0.5)}, num_layers=layers, **more)
    with h5py.File(path, "a") as file:
        for p, sample in enumerate(file["dumps/0/samples"].values()):
            for place, (label, (name, options)) in enumerate(labels.items()):
                group = sample.create_group(label)
                group.attrs.update({"selector": name, "setting": "none", "options": json.dumps(options)})
                group["settings"], group["setting_labels"] = np.zeros(1), np.array([""], h5py.string_dtype())
                group["dense"] = np.array([(dense or {}).get(label) == layer for layer in range(layers)], np.uint8)
                group["done"] = np.ones(layers, np.uint8)
                cells = recall[p, ..., :1].copy()
                for count, layer in bad.get(label, []):
                    if p < count:
                        cells[layer, 1, 2] = 0.5
                group["recall"] = cells.astype(np.float32)
                group["io_ratio"] = np.full(cells.shape, 1 - 0.25 * place, np.float32)
    return str(path)


def one_bad_layer(path, **more):
    """kv_nvfp4 fails in layer 1 for all prompts, kv_fp8 and kv_q8 nowhere."""
    return write_labels(path, {"kv_nvfp4": [(60, 1)]}, **more)


ALL = ["--candidates", "exact,kv_q8,kv_fp8,kv_nvfp4", "--target", TARGET]


def test_fixed_sequence_in_the_order_given(tmp_path):
    path = write_labels(tmp_path / "r.h5", {"kv_q8": [(1, 0)], "kv_fp8": [(60, 0)]})
    found = verdict(path, *ALL)
    assert (found["certified"], found["stopped_at"], found["setting"]) == ("kv_q8", "kv_fp8", "label")
    assert [s["setting"] for s in found["settings"]] == ["exact", "kv_q8", "kv_fp8", "kv_nvfp4"]
    assert [s["verdict"] for s in found["settings"]] == ["certified", "certified", "refuted", "not tested"]
    for judged, k in zip(found["settings"][:3], (0, 1, 60), strict=True):
        check_evidence(judged, 60, k)
    assert [s["io_ratio"] for s in found["settings"]] == [1, 0.75, 0.5, 0.25]
    assert found["claim"]["p_value"] == pytest.approx(cdf(1, 60, 0.1), rel=CLOSE)
    # kv_nvfp4 misses nowhere: before kv_fp8 it is certified, and a sequence of another order is another claim.
    assert verdict(path, "--candidates", "exact,kv_nvfp4,kv_fp8", "--target", TARGET)["certified"] == "kv_nvfp4"
    first = verdict(path, "--candidates", "kv_fp8,exact", "--target", TARGET, expect=3)
    assert first[
        "certified"] is None \
            and "not even kv_fp8, the first of the candidates kv_fp8, exact, is certified" in first["text"]


def test_labels_with_a_setting(tmp_path):
    path = write_labels(tmp_path / "r.h5", {})
    found = verdict(path, "--candidates", "exact,ffd@5.0,kv_q8", "--target", TARGET)
    assert [s["setting"] for s in found["settings"]] == ["exact", "ffd@5.0", "kv_q8"] and found["certified"] == "kv_q8"
    alone = verdict(path, "--selector", "ffd", "--delta", "5", "--target", TARGET)
    assert found["settings"][1]["targets"] == [alone["settings"][0]["targets"][0] | {"passes_at": None}]


def test_per_layer(tmp_path):
    path, out = one_bad_layer(tmp_path / "r.h5"), tmp_path / "rec.json"
    found = verdict(path, *ALL, "--per", "layer", "-o", out)
    assert [u["setting"] for u in found["units"]["settings"]] == ["kv_nvfp4", "kv_fp8", "kv_nvfp4"]
    certified = found["units"]["members"][found["units"]["certified"]]
    check_evidence(certified, 30, 0)
    assert certified["io_ratio"] == pytest.approx((0.25 + 0.5 + 0.25) / 3, abs=CELL)
    rec = json.loads(out.read_text())
    assert (rec["selector"], rec["setting"], rec["default"]) == (None, "label", "kv_nvfp4")
    assert rec["layers"] == {"0": "kv_nvfp4", "1": "kv_fp8", "2": "kv_nvfp4"}
    assert [c["candidate"] for c in rec["candidates"]] == list(LABELS)
    assert rec["candidates"][2] == {"candidate": "kv_fp8", "name": "kv_cache", "label": "kv_fp8", "options": FP8,
                                    "setting": None}
    assert rec["claim"]["chosen_on"] == 30 and rec["claim"]["n"] == 30


def test_io_budget(tmp_path):
    """Brute force over all assignments: the one that loses least on the choosing part within the budget."""
    path = write_labels(tmp_path / "r.h5", {"kv_nvfp4": [(60, 0), (12, 1), (40, 2)], "kv_fp8": [(6, 0), (20, 2)],
                                            "kv_q8": [(2, 2)]})
    found = verdict(path, *ALL, "--per", "layer", "--io-budget", "60%", expect=None)
    chosen = {u["layer"]: u["setting"] for u in found["units"]["settings"]}
    budget = found["units"]["io_budget"]
    with h5py.File(path) as file:
        samples = [file[f"dumps/0/samples/{name}"] for name in found["units"]["choosing_prompts"]]
        loss = {
            label: [
                np.mean([np.float64(0.5) / 0.1 if s[label]["recall"][y].min() < 0.9 else 0 for s in samples])
                for y in range(3)] for label in LABELS}
    io = dict(zip(LABELS, (1, 0.75, 0.5, 0.25)))
    every = [(sum(loss[c][y] for y, c in enumerate(a)), a)
             for a in np.array(np.meshgrid(*[list(LABELS)] * 3)).T.reshape(-1, 3)
             if sum(io[c] for c in a) / 3 <= 0.6 + 1e-12]
    best = min(total for total, _ in every)
    got = sum(loss[chosen[y]][y] for y in range(3))
    assert budget["io"] <= 0.6 + 1e-6 and budget["no_loss_below"] <= budget["loss"] + 1e-12
    assert got <= best * 1.25 + 1e-9 and got >= best - 1e-9


def test_kv_heads(tmp_path):
    path, out = one_bad_layer(tmp_path / "r.h5"), tmp_path / "rec.json"
    validate(path, *ALL, "--per", "kv_head", "-o", out)
    layers = json.loads(out.read_text())["layers"]
    assert layers["0"] == layers["2"] == "kv_nvfp4" and sorted(
        [layers["1"]["default"], *layers["1"]["kv_heads"].values()]) == ["kv_fp8", "kv_nvfp4"]
    for option in ("--emit-vllm", "--emit-modelopt"):
        assert "use --per layer" in validate(path, *ALL, "--per", "kv_head", option, tmp_path / "x.json",
                                             expect=2).stderr


def emitted(path, option, *arguments, expect=0):
    out = path + option + ".json"
    done = validate(path, "--target", TARGET, *arguments, option, out, "--force", expect=expect)
    return done if expect else json.loads(open(out).read())


def test_emit_vllm(tmp_path):
    path = write_labels(tmp_path / "r.h5", {"kv_fp8": [(60, 2)], "kv_nvfp4": [(60, 0)]}, dense={"kv_fp8": 1})
    per_layer = ["--candidates", "exact,kv_fp8", "--per", "layer"]
    # Layer 2 is exact by the verdict, layer 1 by the label's own dense layers.
    assert emitted(path, "--emit-vllm", *per_layer) == {
        "kv_cache_dtype": "fp8", "kv_cache_dtype_skip_layers": ["1", "2"]}
    assert emitted(path, "--emit-vllm", "--selector", "kv_q8", expect=2).stderr.count(
        "vLLM has no KV cache of 'kv_q8' (k=q8_0, v=q8_0)") == 1
    two = emitted(path, "--emit-vllm", "--candidates", "kv_fp8,kv_nvfp4", "--per", "layer", expect=2)
    assert "vLLM has one format and a list of layers without it" in two.stderr
    assert emitted(path, "--emit-vllm", "--selector", "exact") == {
        "kv_cache_dtype": "auto", "kv_cache_dtype_skip_layers": []}
    assert "takes formats of kv_cache" in emitted(path, "--emit-vllm", "--candidates", "ffd@5", expect=2).stderr
    # Layers that were not judged stay as they are.
    assert emitted(path, "--emit-vllm", "--selector", "kv_fp8", "--layers", "0") == \
        {"kv_cache_dtype": "fp8", "kv_cache_dtype_skip_layers": ["1", "2"]}


def without_first_layer(path):
    """The first prompt was not studied in layer 0: its rows are layers 1 and 2."""
    with h5py.File(path, "a") as file:
        def cut(group):
            for name, item in list(group.items()):
                if isinstance(item, h5py.Group):
                    cut(item)
                elif name not in ("query_positions", "settings", "setting_labels"):
                    rows = item[1:]
                    del group[name]
                    group[name] = rows
        cut(next(iter(file["dumps/0/samples"].values())))


def test_layers_are_found_by_their_numbers(tmp_path):
    path = write_labels(tmp_path / "r.h5", {}, dense={"kv_fp8": 1})
    without_first_layer(path)
    assert emitted(path, "--emit-vllm", "--selector", "kv_fp8") == {
        "kv_cache_dtype": "fp8", "kv_cache_dtype_skip_layers": ["1"]}
    assert list(
        emitted(path, "--emit-modelopt", "--selector", "kv_fp8")["quantization"]["kv_cache_quantized_layers"]) == \
            [f"model.layers.{y}.self_attn" for y in (0, 2)]


def test_heads_that_stay_exact_have_no_place_in_a_format_per_layer(tmp_path):
    path = write_labels(tmp_path / "r.h5", {}, labels={"x": ("kv_cache", FP8 | {"dense_heads": "2:1"})})
    for option in ("--emit-vllm", "--emit-modelopt"):
        assert f"{option} takes one format per layer, found x with exact heads (dense_heads=2:1)" in emitted(
            path, option, "--selector", "x", expect=2).stderr


@pytest.mark.parametrize("k, v, name", [("fp8_e5m2", "fp8_e5m2", "fp8_e5m2"), ("nvfp4", "nvfp4", "nvfp4"),
                                        ("turboquant4", "turboquant4", "turboquant_4bit_nc"),
                                        ("turboquant3", "turboquant4", "turboquant_k3v4_nc"),
                                        ("turboquant3", "turboquant3", "turboquant_3bit_nc"),
                                        ("fp8_e4m3", "turboquant4", "turboquant_k8v4"),
                                        ("int4_token_head", "int4_token_head", "int4_per_token_head")])
def test_names_of_vllm(tmp_path, k, v, name):
    path = write_labels(tmp_path / "r.h5", {}, labels={"x": ("kv_cache", {"k": k, "v": v})})
    assert emitted(path, "--emit-vllm", "--selector", "x") == {"kv_cache_dtype": name, "kv_cache_dtype_skip_layers": []}


def test_emit_modelopt(tmp_path):
    path = one_bad_layer(tmp_path / "r.h5")
    algorithms = [("model.layers.0.self_attn", "NVFP4"), ("model.layers.1.self_attn", "FP8"),
                  ("model.layers.2.self_attn", "NVFP4")]
    quantization = emitted(path, "--emit-modelopt", *ALL[:2], "--per", "layer")["quantization"]
    assert quantization["kv_cache_quantized_layers"] == {layer: {"quant_algo": name} for layer, name in algorithms}
    assert (quantization["kv_cache_schema_version"], quantization["kv_cache_quant_algo"]) == (1, "MIXED_PRECISION")
    one = emitted(path, "--emit-modelopt", "--selector", "kv_fp8")["quantization"]
    assert one["kv_cache_quant_algo"] == "FP8" and len(one["kv_cache_quantized_layers"]) == 3
    assert "ModelOpt has KV caches of FP8 and NVFP4, found 'kv_q8'" in emitted(
        path, "--emit-modelopt", "--selector", "kv_q8", expect=2).stderr


def test_scales_that_engines_do_not_get_are_said(tmp_path):
    labels = {"amax": ("kv_cache", FP8 | {"k_scale": "amax", "v_scale": "unit"}),
              "unit": ("kv_cache", FP8 | {"k_scale": "unit", "v_scale": "unit"})}
    path = write_labels(tmp_path / "r.h5", {}, labels=labels)
    for label, said in (("amax", True), ("unit", False)):
        done = validate(path, "--selector", label, "--target", TARGET, "--emit-vllm", tmp_path / f"{label}.json")
        assert ("must carry the scales that were judged (k_scale=amax of 'amax')" in done.stderr) == said


def test_nothing_is_emitted_without_a_certificate(tmp_path):
    path = write_labels(tmp_path / "r.h5", {"kv_fp8": [(60, 0)]})
    done = validate(path, "--selector", "kv_fp8", "--target", TARGET, "--emit-vllm", tmp_path / "v.json",
                    "--emit-modelopt", tmp_path / "m.json", expect=3)
    assert done.stderr.count("was not written: nothing is certified") == 2
    assert [p.name for p in tmp_path.iterdir()] == ["r.h5"]


def test_a_metric_that_a_candidate_lacks(tmp_path):
    path = write_labels(tmp_path / "r.h5", {})
    with h5py.File(path, "a") as file:
        for sample in file["dumps/0/samples"].values():
            sample["ffd/lse_error"] = sample["ffd/recall"][()] * 0
    assert verdict(path, "--selector", "ffd", "--target", "lse_error<=0.1")["certified"] == 3
    done = validate(path, "--candidates", "exact,ffd@5", "--target", "lse_error<=0.1", expect=4)
    assert "no prompt has a number for the target 'lse_error<=0.1' of each of the candidates 'exact, ffd@5'" \
        in done.stderr


@pytest.mark.parametrize("arguments, message", [
    (["--candidates", "exact,none"], "has no 'none', expected a label, or LABEL@SETTING; it has"),
    (["--candidates", "exact,ffd"], "has the settings 3, 5, 7, expected one of them: ffd@3"),
    (["--candidates", "exact,ffd@4"], "r.h5 has the settings 3, 5, 7, found '4'"),
    (["--candidates", "exact@4"], "r.h5 has no settings, found '4'"),
    (["--candidates", "exact,,kv_q8"], "--candidates: '' is not LABEL or LABEL@SETTING"),
    (["--candidates", "exact,"], "--candidates: '' is not LABEL or LABEL@SETTING"),
    (["--candidates", "exact,exact"], "'exact' and 'exact' are the same"),
    (["--candidates", "exact,ffd@5", "--delta", "5"],
     "--candidates are all that is judged, and a setting to judge is given"),
    (["--candidates", "exact", "--grid", "3,5"], "and --grid is given"),
    (["--candidates", "exact", "--selector", "ffd"], "--selector is given, too")])
def test_refusals(tmp_path, arguments, message):
    done = validate(write_labels(tmp_path / "r.h5", {}, prompts=4), "--target", TARGET, *arguments, expect=2)
    assert message in done.stderr


def test_details(tmp_path):
    path = write_labels(tmp_path / "r.h5", {"kv_fp8": [(60, 0)]})
    validate(path, *ALL, "--details", tmp_path / "d", "--per", "layer", "--format", "svg", expect=None)
    text = (tmp_path / "d/verdict.md").read_text()
    assert "kv_q8" in text and (tmp_path / "d/validation.csv").exists() \
        and (tmp_path / "d/validation_units.csv").exists()


def test_monitor(tmp_path):
    path, out = one_bad_layer(tmp_path / "r.h5"), tmp_path / "rec.json"
    validate(path, *ALL, "--per", "layer", "-o", out)

    def watch(name, bad, labels=LABELS):
        later = write_labels(tmp_path / name, bad, prompts=30, labels=labels, dump=name,
                             names=[f"n{p:03}" for p in range(30)])
        return run_attest("--json", "monitor", out, later)

    used = {name: LABELS[name] for name in ("kv_fp8", "kv_nvfp4")}  # the others are not recommended for any layer
    good = watch("a.h5", {"kv_nvfp4": [(30, 1)]}, used)
    assert good.returncode == 0 and json.loads(good.stdout)["k"] == 0, good.stderr
    bad = watch("b.h5", {"kv_fp8": [(30, 1)]})
    assert bad.returncode == 3 and json.loads(bad.stdout)["k"] == 30
    lacking = watch("c.h5", {}, {"kv_fp8": LABELS["kv_fp8"]})
    assert lacking.returncode == 2 and "has no selector kv_cache with the options that" in lacking.stderr


def test_dumps_are_studied_at_the_candidates(tmp_path):
    def run(*arguments):
        return run_attest(*arguments, cwd=tmp_path)
    assert run("synth", "-o", "d.h5", "--tokens", "256", "--samples", "4", "--layers", "2", "--query-heads", "2",
               "--kv-heads", "1").returncode == 0
    done = run("validate", "d.h5", "--candidates", "exact,long,ffd@5,quest@64", "--selector", "long=ffd:gqa=per_head",
               "--target", "recall>=0.5", "--max-violating", "60%")
    assert done.returncode == 2 and "'long' has several settings, expected LABEL@SETTING" in done.stderr, done.stderr
    assert not (tmp_path / "d.study.h5").exists()
    done = run("--json", "validate", "d.h5", "--candidates", "exact,ffd:bits=4,gqa=per_head@5,long@3,quest@64",
               "--selector", "long=ffd:gqa=per_head",
               "--target", "recall>=0.5", "--max-violating", "60%")
    assert done.returncode == 0, done.stderr
    assert [s["setting"] for s in json.loads(done.stdout)["settings"]] == [
        "exact", "ffd:bits=4,gqa=per_head@5", "long@3", "quest@64"]


def test_monitor_studies_dumps_at_the_recommended_candidates(tmp_path):
    def run(*arguments):
        done = attest("--json", *arguments, cwd=tmp_path)
        return done.stdout
    for name, seed in (("d", "1"), ("new", "2")):
        run("--seed", seed, "synth", "-o", f"{name}.h5", "--tokens", "256", "--samples", "4", "--layers", "2",
            "--query-heads", "2", "--kv-heads", "1")
    run("validate", "d.h5", "--candidates", "exact,kv_cache:k=fp8_e4m3,v=fp8_e4m3,ffd:gqa=per_head@5", "--target",
        "recall>=0.5", "--max-violating", "60%", "-o", "rec.json")
    assert json.loads((tmp_path / "rec.json").read_text())["layers"] == {
        "0": "ffd:gqa=per_head@5", "1": "ffd:gqa=per_head@5"}
    found = json.loads(run("monitor", "rec.json", "new.h5"))
    assert (found["n"], found["k"]) == (4, 0)
    with h5py.File(tmp_path / "new.study.h5") as study:
        groups = {name for name, group in next(iter(study["dumps/0/samples"].values())).items()
                  if isinstance(group, h5py.Group) and "done" in group}
    assert groups == {"ffd:gqa=per_head"}, "candidates that are not recommended are not studied again"
