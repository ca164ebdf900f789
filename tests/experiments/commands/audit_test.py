"""attest audit on dumps whose outputs a plain form in numpy computed: sound engines agree in every element type, faults
are found at their layer and row and named, bad input is one sentence."""
import json

import h5py
import numpy as np
import pytest
from attest_program import attest, run_attest

HEADS, KV_HEADS, DIM, VALUE_DIM, TOKENS, POSITIONS, LAYERS = 4, 2, 64, 32, 90, (5, 40, 60, 88), (1, 2, 4)
LATER = {1: 24, 2: None, 4: None}  # sliding windows by layer


def bits_of(values, kind):
    """What a data set stores: bfloat16 as uint16, rounded half to even."""
    if kind != "bfloat16":
        return values.astype(kind)
    words = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((words + 0x7FFF + ((words >> 16) & 1)) >> 16).astype(np.uint16)


def rounded(values, kind):
    stored = bits_of(values, kind)
    return (
        stored.astype(np.uint32) << 16).view(np.float32).astype(float) if kind == "bfloat16" else stored.astype(float)


def put(group, name, values, kind, **storage):
    data = group.create_dataset(name, data=bits_of(values, kind), **storage)
    if kind == "bfloat16":
        data.attrs["dtype"] = "bfloat16"


def e4m3(x):
    """Round half to even, saturating."""
    x = np.clip(np.asarray(x, np.float32), -448, 448)
    step = np.exp2(np.maximum(np.floor(np.log2(np.maximum(np.abs(x), 1e-30))), -6) - 3)
    return np.clip(np.round(x / step) * step, -448, 448)


def cut_e4m3(x):
    """Towards zero, saturating."""
    x = np.clip(np.asarray(x, np.float32), -448, 448)
    step = np.exp2(np.maximum(np.floor(np.log2(np.maximum(np.abs(x), 1e-30))), -6) - 3)
    return np.trunc(x / step) * step


def half_sums(s, value, parts):
    """softmax(s) value, each token's product added in float16; parts of the tokens are put together in float32."""
    together, weight, most = np.zeros(value.shape[1], np.float32), np.float32(0), s.max().astype(np.float32)
    for part in parts:
        if not len(s[part]):
            continue
        total, sums, largest = np.float32(0), np.zeros(value.shape[1], np.float16), np.float32(-np.inf)
        for score, row in zip(s[part].astype(np.float32), value[part].astype(np.float32), strict=True):
            if score > largest:
                kept, largest = np.exp(largest - score), score
                sums, total = (sums.astype(np.float32) * kept).astype(np.float16), total * kept
            factor = np.exp(score - largest)
            sums, total = (sums.astype(np.float32) + row * factor).astype(np.float16), total + factor
        together, weight = together + sums.astype(np.float32) * np.exp(largest - most), weight + \
            total * np.exp(largest - most)
    return together / weight


def attention(q, k, v, positions, *, window=None, sinks=None, softcap=None, scale, later=0, masked=True, modulo=False,
              shift=0, value_shift=0):
    """float64 [N, Hq, Dv] and [N, Hq]"""
    group, output, lse = HEADS // KV_HEADS, np.zeros((len(positions), HEADS, v.shape[2])), \
        np.zeros((len(positions), HEADS))
    for n, p in enumerate(positions):
        for h in range(HEADS):
            g = h % KV_HEADS if modulo else h // group
            j = np.arange(k.shape[1])
            at = j - shift
            seen = (at <= p + later) & (at > p - window if window else True) & (at >= 0) if masked else at == at
            s = scale * (k[g] @ q[n, h])[seen]
            if softcap:
                s = softcap * np.tanh(s / softcap)
            value = v[g][np.clip(j + value_shift, 0, len(j) - 1)][seen]
            most = max(s.max(), sinks[h] if sinks is not None else -np.inf)
            weights, rest = np.exp(s - most), np.exp(sinks[h] - most) if sinks is not None else 0
            total = weights.sum() + rest
            output[n, h], lse[n, h] = weights @ value / total, most + np.log(total)
    return output, lse


def write(path, fault=None, at=2, kind="float16", output_kind=None, lse=True, storage=(), softcap=None, sinks=False,
          cached=(), header=(), seed=7, samples=("s",), twice=None, code=e4m3):
    """A dump whose layer `at` has the fault; `cached`: what is stored in `code`, "k" or "v"."""
    random = np.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        file.attrs.update(format="attention-dump", format_version=1, model="test/model", num_layers=6,
                          num_query_heads=HEADS,
                          num_kv_heads=KV_HEADS, head_dim=DIM, value_dim=VALUE_DIM, engine="numpy 1", **dict(header))
        if softcap:
            file.attrs["logit_softcap"] = softcap
        for name in samples:
            sample = file.create_group(f"samples/{name}")
            sample.attrs.update(task="t", num_tokens=TOKENS)
            sample["query_positions"] = np.array(POSITIONS)
            for number in LAYERS:
                layer = sample.create_group(f"layers/{number}")
                q = rounded(random.standard_normal((len(POSITIONS), HEADS, DIM)) * 1.5, kind)
                k = rounded(random.standard_normal((KV_HEADS, TOKENS, DIM)), kind)
                v = rounded(random.standard_normal((KV_HEADS, TOKENS, VALUE_DIM)) + 0.2, kind)
                put(layer, "q", q, kind), put(layer, "k", k, kind), put(layer, "v", v, kind)
                how = {"window": LATER[number], "scale": DIM**-0.5, "softcap": softcap}
                if LATER[number]:
                    layer.attrs["sliding_window"] = LATER[number]
                if sinks:
                    layer["sinks"] = how["sinks"] = random.standard_normal(HEADS).astype(np.float32) + 1
                if number == at and fault:
                    how |= fault
                out, log_sum = attention(q, code(k) if "k" in cached else k, code(v) if "v" in cached else v, POSITIONS,
                                         **how)
                for between in (twice,) if twice else ():
                    out = rounded(out, between)
                put(layer, "output", out, output_kind or kind, **dict(storage))
                if lse:
                    layer["output_lse"] = log_sum.astype(np.float32)
    return path


def refused(*arguments, expect=4):
    done = attest("audit", *arguments, expect=expect)
    assert done.stdout == "" and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize("output_kind", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32"])
def test_a_sound_engine_agrees(kind, output_kind, tmp_path):
    dump = write(tmp_path / "d.h5", kind=kind, output_kind=output_kind, sinks=True, softcap=30)
    done = attest("audit", dump)
    assert "agrees: rounding explains every row" in done.stdout and "numpy 1, KV cache of 16 bits" in done.stdout
    assert (f"{len(LAYERS) * len(POSITIONS) * HEADS} rows (query, query head) of 3 layers with exact attention, on the "
            "CPU, ") in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("storage", [{}, {"chunks": (1, HEADS, VALUE_DIM), "compression": 4, "shuffle": True}])
@pytest.mark.parametrize("lse", [True, False])
def test_storage_and_a_log_sum_exp_are_the_writers_choice(storage, lse, tmp_path):
    report = json.loads(attest("audit", write(tmp_path / "d.h5", lse=lse, storage=storage), "--json").stdout)
    assert report["agrees"] and report["engine"] == "numpy 1" and report["kv_cache"] is None and report["first"] is None
    for layer in report["layers"]:
        assert (layer["expected"]["lse_difference"] is None) != lse
        assert 0 < layer["expected"]["error"] < layer["bound"] and layer["output_type"] == "float16"
        assert layer["expected"] == layer["exact"] and len(layer["heads"]) == HEADS


def test_an_output_that_is_rounded_twice_agrees(tmp_path):
    attest("audit", write(tmp_path / "d.h5", kind="bfloat16", output_kind="float16", twice="bfloat16"))
    attest("audit", write(tmp_path / "e.h5", kind="float16", output_kind="bfloat16", twice="float16"))


FAULTS = {  # fault, where, the rows that it can change at all, kind, words
    "own_key": ({"later": -1}, 2, 5, "mask", "does not see its own key"),
    "next_key": ({"later": 1}, 2, 5, "mask", "sees the next key, too"),
    "no_mask": ({"masked": False}, 4, 5, "mask", "sees every key of the sample"),
    "no_window": ({"window": None}, 1, 40, "window", "sliding window of 24 tokens is missing"),
    "window_of_other_layers": ({"window": 24}, 4, 40, "window", "24 tokens, that of other layers, instead of none"),
    "window": ({"window": 51}, 2, 60, "window", "51 tokens instead of none"),
    "no_sinks": ({"sinks": None}, 2, 5, "sinks", "learned sinks are missing"),
    "no_softcap": ({"softcap": None}, 2, 5, "softcap", "soft-cap of 2 is missing"),
    "scale_twice": ({"scale": 1 / DIM}, 4, 5, "scale", "0.015625"),
    "no_scale": ({"scale": 1}, 4, 5, "scale", "1 (none)"),
    "heads_modulo": ({"modulo": True}, 2, 5, "gqa", "h mod Hkv"),
    "cache_shifted": ({"shift": 1}, 2, 5, "position", "one token later"),
    "values_shifted": ({"value_shift": -1}, 1, 5, "values", "each is that of one token earlier"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_at_its_layer_and_named(name, tmp_path):
    fault, at, first, kind, words = FAULTS[name]
    dump = write(tmp_path / "d.h5", fault, at, sinks="sinks" in name, softcap=2 if "softcap" in name else None)
    report = json.loads(attest("audit", dump, "--json", expect=3).stdout)
    assert not report["agrees"] and report["first"]["layer"] == at and report["first"]["position"] == first
    failing = [layer for layer in report["layers"] if layer["first"]]
    assert [layer["layer"] for layer in failing] == [at]
    explanation = failing[0]["explanation"]
    assert explanation["explained_by"][0]["kind"] == kind and words in explanation["explained_by"][0]["text"], \
        explanation
    assert explanation["failing"] == failing[0]["expected"]["beyond"] > 0
    text = attest("audit", dump, expect=3).stdout
    assert text == report["text"] and "explained by: " in text and words in text


@pytest.mark.parametrize("declared, cached, agrees, words", [
    ("k=fp8_e4m3,v=fp8_e4m3", "kv", True, ""), ("k=fp8_e4m3", "k", True, ""),
    ("", "kv", False, "k=fp8_e4m3,v=fp8_e4m3"), (
        "k=fp8_e4m3,v=fp8_e4m3", "", False, "exact attention, from keys and values as dumped"),
    ("k=fp8_e4m3,v=fp8_e4m3", "v", False, "k=native,v=fp8_e4m3"),
    ("k=fp8_e4m3,k_scale=amax", "k", False, "k=fp8_e4m3,v=native ("),
])
def test_the_cache_that_the_engine_says_it_has(declared, cached, agrees, words, tmp_path):
    dump = write(tmp_path / "d.h5", cached=cached, header={"kv_cache": declared}.items())
    report = json.loads(attest("audit", dump, "--json", expect=0 if agrees else 3).stdout)
    assert report["agrees"] == agrees and (report["kv_cache"] or "") == declared
    assert len(report["layers"]) == len(LAYERS)
    for layer in report["layers"]:
        if agrees:
            assert layer["exact"]["beyond"] > 0 and layer["expected"]["error"] < layer["exact"]["error"]
        else:
            assert layer["explanation"]["explained_by"][0]["text"].startswith(words), layer["explanation"]


def test_codes_that_are_cut_are_named(tmp_path):
    dump = write(tmp_path / "d.h5", cached="kv", code=cut_e4m3, kind="bfloat16",
                 header={"kv_cache": "k=fp8_e4m3,v=fp8_e4m3"}.items())
    layers = json.loads(attest("audit", dump, "--json", expect=3).stdout)["layers"]
    assert len(layers) == len(LAYERS)
    for layer in layers:
        best = layer["explanation"]["explained_by"][0]
        assert best["text"] == "k=fp8_e4m3,v=fp8_e4m3 (codes are cut towards zero, not rounded; the same here as " \
            "k_scale=modelopt,v_scale=modelopt)", best


SCALES = {1: (0.25, 2.0), 2: (0.03, 1.0), 4: (3.0, 0.7)}  # of keys and values, by layer


def write_scaled(path, scales=SCALES, stored=SCALES, cache="k=fp8_e4m3,v=fp8_e4m3"):
    """A cache in e4m3 in which each layer has scales of its own, with the outputs that `stored` gives."""
    write(path, header={"kv_cache": cache}.items())
    with h5py.File(path, "r+") as file:
        for number in LAYERS:
            layer = file[f"samples/s/layers/{number}"]
            layer["cache_scales"] = np.array(scales[number], np.float32)
            key, value = (np.float32(scale) for scale in stored[number])
            out, lse = attention(*(layer[name][:].astype(np.float32) for name in "q"), e4m3(layer["k"][:] / key) * key,
                                 e4m3(layer["v"][:] / value) * value, POSITIONS, window=LATER[number], scale=DIM**-0.5)
            layer["output"][...], layer["output_lse"][...] = out, lse
    return path


def test_layers_have_scales_of_their_own(tmp_path):
    attest("audit", write_scaled(tmp_path / "d.h5"))
    attest("audit", write_scaled(tmp_path / "f.h5", cache="k=fp8_e4m3,v=fp8_e4m3,k_scale=9"))
    dump = write_scaled(tmp_path / "g.h5", stored=SCALES | {2: (1.0, 1.0)})
    report = json.loads(attest("audit", dump, "--json", expect=3).stdout)
    (failing,) = [layer for layer in report["layers"] if layer["first"]]
    assert failing["layer"] == 2 and failing["explanation"]["explained_by"][0]["text"].startswith(
        "k=fp8_e4m3,v=fp8_e4m3")
    attest("audit", dump, "--selector", "kv_cache:k=fp8_e4m3,v=fp8_e4m3", expect=3)  # whatever the dump says


@pytest.mark.parametrize("scales", [(0, 1), (1, np.nan), (-1, 1), (np.inf, 1)])
def test_scales_that_are_none_are_refused(scales, tmp_path):
    said = refused(write_scaled(tmp_path / "d.h5", scales=SCALES | {2: scales}))
    assert "d.h5: /samples/s/layers/2/cache_scales: has " in said and "expected scales of the cache: " in said


def write_half_sums(path, engine, threads=1, tokens=4000):
    """The values of a long sample, added up in float16 as llama.cpp's threads do."""
    random = np.random.default_rng(3)
    with h5py.File(path, "w") as file:
        file.attrs.update(format="attention-dump", format_version=1, model="m", num_layers=1, num_query_heads=HEADS,
                          num_kv_heads=KV_HEADS, head_dim=DIM, value_dim=VALUE_DIM, engine=engine)
        sample = file.create_group("samples/s")
        sample.attrs.update(task="t", num_tokens=tokens)
        sample["query_positions"] = positions = np.arange(tokens - 3, tokens)
        q, k, v = (rounded(random.standard_normal(shape) + 0.5 * (shape[-1] == VALUE_DIM), "float16") for shape in (
            (3, HEADS, DIM), (KV_HEADS, tokens, DIM), (KV_HEADS, tokens, VALUE_DIM)))
        output = np.zeros((3, HEADS, VALUE_DIM))
        part = -(-4096 // threads)  # the cache is read in steps of 256 cells
        for n, p in enumerate(positions):
            for h in range(HEADS):
                s = DIM**-0.5 * (k[h // 2, :p + 1] @ q[n, h])
                output[n, h] = half_sums(s, v[h // 2], [slice(b, min(b + part, p + 1)) for b in range(0, p + 1, part)])
        layer = sample.create_group("layers/0")
        for name, values, kind in (("q", q, "float16"), ("k", k, "float16"), ("v", v, "float16"),
                                   ("output", output, "float32")):
            put(layer, name, values, kind)
    return path


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_llama_cpp_adds_values_up_in_float16(threads, tmp_path):
    report = json.loads(attest("audit", write_half_sums(tmp_path / "d.h5", "llama.cpp of x 1", threads),
                               "--json").stdout)
    by = f" by {threads} threads" if threads > 1 else ""
    (layer,) = report["layers"]
    assert layer["own_rounding"] == f"values added up in float16{by}" and layer["exact"]["beyond"] > 0
    assert f"and that of the engine: values added up in float16{by}, in layer 0" in report["text"]
    attest("audit", write_half_sums(tmp_path / "e.h5", "another 1", threads), expect=3)


def test_a_named_selector_is_expected(tmp_path):
    dump = write(tmp_path / "d.h5", cached="kv")
    attest("audit", dump, expect=3)
    attest("audit", dump, "--selector", "kv_cache:k=fp8_e4m3,v=fp8_e4m3")
    sparse = attest("audit", write(tmp_path / "e.h5"), "--selector", "streaming_llm", "--budget", 32, expect=3).stdout
    assert "with streaming_llm at budget 32" in sparse and (
        "explained by: exact attention, from keys and values as dumped") in sparse


def test_a_layer_is_exact_if_all_of_its_heads_are(tmp_path):
    dump = write(tmp_path / "d.h5")
    kv = "kv_cache:k=fp8_e4m3,v=fp8_e4m3,dense_heads="
    for heads, words in (("1:0", "k=fp8_e4m3"), ("1:0+1:1", "exact attention")):
        layers = json.loads(attest("audit", dump, "--selector", kv + heads, "--json", expect=3).stdout)["layers"]
        found = next(layer for layer in layers if layer["layer"] == 1)
        assert words in found["expected_attention"], (heads, found)


def test_what_is_chosen_is_audited(tmp_path):
    dump = write(tmp_path / "d.h5", {"window": None}, 1, samples=("a", "b"))
    assert json.loads(attest("audit", dump, "--layers", "2-", "--json").stdout)["agrees"]
    report = json.loads(attest("audit", dump, "--samples", "b", "--queries", "last:2", "--json", expect=3).stdout)
    assert [layer["sample"] for layer in report["layers"]] == ["b"] * 3 and report["first"]["position"] == 60
    assert report["layers"][0]["rows"] == 2 * HEADS
    # the window hides nothing there
    assert json.loads(attest("audit", dump, "--queries", "5", "--json").stdout)["agrees"]


def test_two_faults_at_once_are_not_explained(tmp_path):
    text = attest("audit", write(tmp_path / "d.h5", {"modulo": True, "scale": 0.4}), expect=3).stdout
    assert "layer 2: no hypothesis explains all " in text and "; the nearest: " in text


def test_roundings_are_the_users_choice(tmp_path):
    dump = write(tmp_path / "d.h5", cached="kv")
    attest("audit", dump, expect=3)
    attest("audit", dump, "--roundings", 400)


def damage(path, change):
    with h5py.File(path, "r+") as file:
        change(file, file["samples/s/layers/2"])
    return path


def replace(group, name, values):
    del group[name]
    group[name] = values


def set_nan(group, name, index):
    group[name][index] = np.nan


SHAPE = (len(POSITIONS), HEADS, VALUE_DIM)


@pytest.mark.parametrize("change, sentence", [
    (lambda file, layer: set_nan(layer, "output", (1, 2, 3)),
     "d.h5: /samples/s: layer 2, output, head 2: NaN, first at token 40, expected finite values"),
    (lambda file, layer: set_nan(layer, "output_lse", (3, 0)), "layer 2, output_lse, head 0: NaN, first at token 88"),
    (lambda file, layer: set_nan(layer, "k", (1, 4, 0)), "layer 2, k, head 1: NaN, first at token 4"),
    (lambda file, layer: replace(layer, "output", np.zeros((3, HEADS, VALUE_DIM), np.float16)),
     "/samples/s/layers/2/output: has the shape [3, 4, 32], expected [4, 4, 32] (query positions, num_query_heads, "
     "value_dim)"),
    (lambda file, layer: replace(layer, "output", np.zeros((len(POSITIONS), HEADS, DIM), np.float16)),
     "expected [4, 4, 32]"),
    (lambda file, layer: replace(layer, "output", np.zeros(SHAPE)), "/layers/2/output: has elements of type"),
    (lambda file, layer: replace(layer, "output", np.zeros(SHAPE, np.int32)), "/layers/2/output: has elements of type"),
    (lambda file, layer: replace(layer, "output_lse", np.zeros((4, HEADS + 1), np.float32)),
     "/output_lse: has the shape [4, 5], expected [4, 4]"),
    (lambda file, layer: replace(layer, "output_lse", np.zeros((4, HEADS), np.float16)),
     "has elements of type float16, expected float32"),
    (lambda file, layer: layer.create_dataset("cache_scales", data=np.ones(3, np.float32)),
     "/samples/s/layers/2/cache_scales: has the shape [3], expected [2]"),
    (lambda file, layer: layer.create_dataset("cache_scales", data=np.ones(2)),
     "/cache_scales: has elements of type little-endian float of 64 bits"),
    (lambda file, layer: file.attrs.update(kv_cache="k=fp7"),
     "d.h5: /: attribute 'kv_cache' is 'k=fp7', expected options of the selector kv_cache: "),
    (lambda file, layer: file.attrs.update(kv_cache="fp8"), "attribute 'kv_cache' is 'fp8', expected options"),
    (lambda file, layer: file.attrs.update(kv_cache="k=fp8_ds_mla"),
     "attribute 'kv_cache' is 'k=fp8_ds_mla', expected options"),
    (lambda file, layer: file.attrs.update(kv_cache=3), "attribute 'kv_cache'"),
    (lambda file, layer: file.attrs.update(engine=np.zeros(2)), "attribute 'engine'"),
])
def test_bad_input_is_one_sentence(change, sentence, tmp_path):
    said = refused(damage(write(tmp_path / "d.h5"), change))
    assert sentence in said, said


def test_a_dump_without_output_says_what_records_it(tmp_path):
    dump = write(tmp_path / "d.h5", samples=("s", "t"))
    with h5py.File(dump, "r+") as file:
        del file["samples/s/layers/2/output"]
    text = attest("audit", dump).stdout
    assert "left out     1 layer of a sample without output" in text
    with h5py.File(dump, "r+") as file:
        for layer in [file[f"samples/{name}/layers/{number}"] for name in "st" for number in LAYERS]:
            layer.pop("output", None)
    said = refused(dump)
    assert "no chosen layer has the data set 'output'" in said \
        and "'attest capture --attention-output' records it" in said


@pytest.mark.parametrize("arguments, sentence", [
    (["--selector", "quest"], "--selector: 'quest' has 8 settings, expected one: give --budget a number"),
    (["--selector", "exact", "--selector", "topk"], "--selector is given several times, expected one"),
    (["--delta", "3"], "--delta is a setting of --selector, which is not given"),
    (["--device", "cuda"], "--device: 'cuda', expected auto or cpu: attest audit has no CUDA code"),
    (["--selector", "double_sparsity:calibration=s", "--budget", "9"], "--selector: "),
    (["--layers", "3"], "--layers: no chosen sample has layer 3"),
])
def test_wrong_usage_is_one_sentence(arguments, sentence, tmp_path):
    assert sentence in refused(write(tmp_path / "d.h5"), *arguments, expect=2)


def test_engine_and_cache_are_shown(tmp_path):
    dump = write(tmp_path / "d.h5", header={"kv_cache": "k=fp8_e4m3"}.items(), samples=[f"s{i}" for i in range(6)])
    shown = attest("inspect", dump, "--check").stdout
    assert "engine       numpy 1" in shown and "KV cache     k=fp8_e4m3" in shown and "attention outputs" in shown
    summary = json.loads(attest("inspect", dump, "--json").stdout)
    assert summary["engine"] == "numpy 1" and summary["kv_cache"] == "k=fp8_e4m3"
    assert summary["samples"][0]["layers"][0] | {"has_output": True, "has_output_lse": True,
                                                 "output_type": "float16"} == summary["samples"][0]["layers"][0]
    results = tmp_path / "r.h5"
    attest("run", dump, "-o", results, "--selector", "streaming_llm", "--budget", "16,64", "--device", "cpu", "--quiet")
    assert "numpy 1, KV cache k=fp8_e4m3" in attest("inspect", results).stdout
    judged = run_attest("validate", results, "--target", "recall>=0", "--claim", "observed")
    assert judged.returncode in (0, 3) and "  engine       numpy 1, KV cache k=fp8_e4m3\n" in judged.stdout, judged
    attest("report", results, "-o", tmp_path / "r.html", "--quiet")
    assert "numpy 1, KV cache k=fp8_e4m3" in (tmp_path / "r.html").read_text()


def test_inspect_finds_a_bad_output(tmp_path):
    dump = damage(write(tmp_path / "d.h5"), lambda file, layer: set_nan(layer, "output", (0, 1, 0)))
    done = attest("inspect", dump, "--check", expect=4)
    found = "layer 2, output, head 1: NaN, first at token 5"
    assert found in done.stderr
    check = json.loads(attest("inspect", dump, "--check", "--json", expect=4).stdout)["check"]
    assert [layer["bad_array"] for layer in check["layers"] if not layer["finite"]] == [found]
