"""kv_range: magnitudes, outlier channels and what scales lose, by numpy from the dump."""

import h5py
import numpy as np
import pytest
from program_study import attest, findings, make, make_study, number, read_csv, reason, same

# and half of it is read as 0
LARGEST, LEAST = {"fp8_e4m3": 448, "fp8_e5m2": 57344}, {"fp8_e4m3": 2.0**-9, "fp8_e5m2": 2.0**-16}
FORMATS = {"K": ("fp8_e4m3", 0.006), "V": ("fp8_e5m2", 3e4)}


def tensors(path, side):
    """layer -> one array [KV head, token, channel] per sample, float32."""
    found = {}
    with h5py.File(str(path).replace(".h5", "_dump.h5")) as dump:
        for sample in dump["samples"].values():
            for layer, group in sample["layers"].items():
                raw = group[side.lower()][()]
                values = (
                    raw.astype(np.uint32) << 16).view(np.float32) if raw.dtype == np.uint16 else raw.astype(np.float32)
                found.setdefault(int(layer), []).append(values)
    return dict(sorted(found.items()))


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("range")
    path = make_study(folder, ["exact", "kv=kv_cache:k=fp8_e4m3,v=fp8_e5m2,k_scale=0.006,v_scale=30000",
                               "again=kv_cache:k=fp8_e4m3,k_scale=0.006"],
                      layers=2, tokens=500, samples=2, name="plain")
    # an outlier channel, so that there is one to find
    with h5py.File(str(path).replace(".h5", "_dump.h5"), "r") as dump:
        assert dump["samples"]
    return path, folder / "out", make(path, folder / "out", "kv_range")


def loss(samples, format_, scale_of):
    """Shares of values that saturate, and of nonzero values that are read as 0; x / s in float32."""
    saturated = zeroed = values = nonzero = 0
    for x in samples:
        scaled = np.abs(x / np.float32(scale_of(x)))
        saturated += (scaled > LARGEST[format_]).sum()
        zeroed += ((x != 0) & (scaled <= LEAST[format_] / 2)).sum()
        values, nonzero = values + x.size, nonzero + (x != 0).sum()
    return saturated / values, zeroed / nonzero


def test_rows(study):
    path, out, _ = study
    rows = read_csv(out / "kv_range.csv")
    for side, (format_, run) in FORMATS.items():
        for layer, samples in tensors(path, side).items():
            magnitudes = np.abs(np.concatenate([x.ravel() for x in samples])).astype(np.float64)
            channels = np.max([np.abs(x).max(axis=1) for x in samples], axis=0)
            ratio = channels / np.median(channels)
            head, channel = np.unravel_index(np.argmax(ratio), ratio.shape)
            want = {"max_abs": magnitudes.max(), "p9999": np.quantile(magnitudes, 0.9999), "outlier": ratio.max(),
                    "outlier_kv_head": head,
                    "outlier_channel": channel, "outliers": (ratio >= 10).sum(), "values": magnitudes.size}
            own = [row for row in rows if row["side"] == side and number(row, "layer") == layer]
            assert [row["format"] for row in own] == ["", format_]
            for row in own:
                same(row, want)
            scales = {"unit": lambda x: 1, "amax": lambda x: np.float32(np.abs(x).max()) / np.float32(LARGEST[format_]),
                      "run": lambda x: run}
            for name, scale_of in scales.items():
                saturated, zeroed = loss(samples, format_, scale_of)
                same(own[1], {f"saturated_{name}": saturated, f"zeroed_{name}": zeroed}, abs=1e-9)
    table = read_csv(out / "kv_range_table.csv")
    assert len(table) == 4 and [(row["of"] if "of" in row else row["side"]) for row in table] == ["K", "K", "V", "V"]


def test_it_is_not_trivial(study):
    rows = [row for row in read_csv(study[1] / "kv_range.csv") if row["format"]]
    assert all(number(row, "saturated_run") > 0 for row in rows if row["side"] == "K")
    assert all(number(row, "zeroed_run") > 0.1 for row in rows if row["side"] == "V")
    assert all(number(row, "saturated_unit") == 0 == number(row, "saturated_amax") for row in rows)


def test_findings(study):
    path, out, said = study
    texts = findings(said)
    assert len(texts) == 4
    for text, side, words in ((texts[0], "K", "keys"), (texts[2], "V", "values")):
        most = {layer: max(np.abs(x).max() for x in samples) for layer, samples in tensors(path, side).items()}
        place = "every layer" if len({f"{x:.4g}" for x in most.values()}) == 1 else f"layer {max(most, key=most.get)}"
        assert text.startswith(
            f"The largest of the {words} is {max(most.values()):.4g}, in {place} (there 99.99 % are at most ")
    row = max((r for r in read_csv(out / "kv_range.csv") if r["format"] == "fp8_e4m3"),
              key=lambda r: number(r, "saturated_run"))
    assert f"at the run's scale (0.006) {100 * number(row, 'saturated_run'):.3g} % (layer {row['layer']})" in texts[1]
    assert "at unit 0 % (every layer) and" in texts[1] and "at amax 0 % (every layer) and" in texts[1], \
        "no layer is the worst of equal ones"


def test_equal_layers_have_no_worst(tmp_path):
    """The second layer is a copy of the first: nothing is in the one that is not in the other."""
    dump, path = tmp_path / "r_dump.h5", tmp_path / "r.h5"
    attest("synth", "-o", dump, "--layers", 2, "--samples", 1, "--tokens", 300, "--queries", 2, "--query-heads", 4,
           "--kv-heads", 2)
    with h5py.File(dump, "r+") as file:
        for sample in file["samples"].values():
            for side in "kv":
                sample["layers/1"][side][...] = sample["layers/0"][side][...]
    attest("run", dump, "-o", path, "--selector", "kv=kv_cache:k=fp8_e4m3,v=fp8_e4m3")
    texts = findings(make(path, tmp_path / "out", "kv_range"))
    assert len(texts) == 4 and not any("layer 0" in text or "layer 1" in text or "KV head" in text for text in texts)
    assert all(", in every layer (there 99.99 % are at most " in text and text.endswith(
        " times the median channel in every layer.")
               for text in (texts[0], texts[2]))
    assert all(text.count("(every layer)") == 6 for text in (texts[1], texts[3]))


def test_nvfp4_at_amax_saturates_nothing(tmp_path):
    path = make_study(tmp_path, ["exact", "kv=kv_cache:k=nvfp4,v=nvfp4_4over6"], layers=1, tokens=300, samples=1)
    make(path, tmp_path / "out", "kv_range")
    rows = [row for row in read_csv(tmp_path / "out/kv_range.csv") if row["format"]]
    assert [row["format"] for row in rows] == ["nvfp4", "nvfp4_4over6"]
    for row in rows:
        x = tensors(path, row["side"])[0][0]
        assert number(row, "saturated_amax") == number(row, "saturated_run") == 0 < number(row, "zeroed_run")
        assert number(row, "saturated_unit") == (np.abs(x) > 2688).mean()


def test_the_dump_is_gone(tmp_path):
    path = make_study(tmp_path, ["exact", "kv=kv_cache:k=fp8_e4m3"], layers=1, tokens=300, samples=1)
    (tmp_path / "r_dump.h5").unlink()
    assert reason(path, tmp_path / "out", "kv_range")[0].startswith("needs the dump of the study: ")


def test_a_dump_with_other_samples_is_no_dump_of_nan(tmp_path):
    path = make_study(tmp_path, ["exact", "kv=kv_cache:k=fp8_e4m3"], layers=1, tokens=300, samples=1)
    with h5py.File(path, "r+") as file:
        (sample,) = file["dumps/0/samples"].values()
        sample.attrs["num_tokens"] = 301
    assert "r_dump.h5 does not hold layer 0 of sample '" in (said := reason(path, tmp_path / "out", "kv_range")[0])
    assert said.endswith("with 301 tokens")


def test_a_format_loses_what_its_own_samples_lose(tmp_path):
    """Of three pooled files the first two have a format each, on prompts of their own, the third has none."""
    paths = [make_study(tmp_path, ["exact", *own], layers=1, tokens=300, samples=samples, name=name, seed=seed)
             for seed, (name, own, samples) in enumerate((("a", ["kv=kv_cache:k=fp8_e4m3,k_scale=0.006"], 2),
                                                          ("b", ["other=kv_cache:k=fp8_e5m2,k_scale=3e4"], 1),
                                                          ("c", ["ffd"], 3)), start=1)]
    said = make(paths, tmp_path / "out", "kv_range")
    every, first, second = (row for row in read_csv(tmp_path / "out/kv_range.csv") if row["side"] == "K")
    keys = [tensors(path, "K")[0] for path in paths[:2]]
    same(every, {"values": sum(x.size for x in keys[0] + keys[1]), "max_abs": max(
        np.abs(x).max() for x in keys[0] + keys[1])})
    for row, samples, format_, scale in ((first, keys[0], "fp8_e4m3", 0.006), (second, keys[1], "fp8_e5m2", 3e4)):
        saturated, zeroed = loss(samples, format_, lambda x: scale)
        assert row["format"] == format_ and saturated + zeroed > 0, "not trivial"
        same(row, {"saturated_run": saturated, "zeroed_run": zeroed, "values": sum(x.size for x in samples)}, abs=1e-9)
    assert f"{100 * number(second, 'zeroed_run'):.3g} % (layer 0)" in findings(said)[2]
    caption = (tmp_path / "out/captions.md").read_text()
    assert "without 3 samples, which had no such format; losses of each format over the samples that were run with it" \
        in caption
