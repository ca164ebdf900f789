"""`attest claims`: numpy recomputes every number of the page from the results file; planted cells turn each verdict."""

import json
import re

import h5py
import numpy as np
import pytest
from attest_program import attest


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Six prompts of a synthetic model; quest and ffd without dense layers, the oracles, and both GQA policies."""
    folder = tmp_path_factory.mktemp("claims")
    attest("synth", "-o", folder / "d.h5", "--layers", 4, "--samples", 6, "--tokens", 1500, "--queries", 3,
           "--query-heads", 8,
           "--kv-heads", 2, "--head-dim", 32, "--value-dim", 32, "--seed", 3)
    selectors = ["ffd", "per_head=ffd:gqa=per_head", "unscaled=ffd:delta_unit=unscaled", "quest:dense_layers=0",
                 "topdelta", "topk", "blocks=topdelta:granularity=block"]
    attest("run", folder / "d.h5", "-o", folder / "r.h5", "--delta", "1:9:1", "--budget", "64,128,256,512,1024",
           *[part for s in selectors for part in ("--selector", s)])
    return folder / "r.h5"


@pytest.fixture
def changed(results, tmp_path):
    """A copy of the results in which edit(group of a label, layers) changed every sample."""

    def change(label, edit):
        path = tmp_path / "changed.h5"
        path.write_bytes(results.read_bytes())
        with h5py.File(path, "r+") as file:
            for sample in file["dumps/0/samples"].values():
                edit(sample[label], sample["layers"][()])
        return path

    return change


def claims(path):
    study = json.loads(attest("claims", path, "--json").stdout)["studies"][0]
    return {c["claim"]: c for c in study["claims"] + study["contradictions"]}


def claim(path, start):
    return next(c for text, c in claims(path).items() if text.startswith(start))


def cells(path, label, metric, setting=None, per_layer=False):
    """[samples] of [layers, queries, heads]."""
    arrays = []
    with h5py.File(path) as file:
        for sample in file["dumps/0/samples"].values():
            array = sample[label][metric][()].astype(float)
            if setting is not None:
                array = array[..., list(sample[label]["setting_labels"].asstr()[()]).index(setting)]
            arrays.append(array)
    return arrays


def mean(arrays):
    return np.nanmean(np.concatenate([a.ravel() for a in arrays]))


def numbers(text):
    return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", text)]


def test_recall_and_its_samples(results):
    found = claim(results, "Delta = 5 gives near-perfect")
    recall = cells(results, "ffd", "recall", "5")
    assert found["evidence"].startswith(f"mean recall {mean(recall):.4f} (95 % interval ") \
        and "6 samples)" in found["evidence"]
    assert found["evidence"].endswith(f"lowest of all cells {min(np.nanmin(a) for a in recall):.4f}")
    low, high = numbers(found["evidence"].split("interval")[1])[:2]
    of_samples = [np.nanmean(a) for a in recall]
    assert low <= mean(recall) <= high <= 1 and low < max(of_samples) and high > min(of_samples)
    assert found["verdict"] == ("holds" if low >= 0.99 else "does not hold" if high < 0.99 else "cannot tell")
    assert "at least 0.99" in found["rule"] and found["subject"] == "ffd at delta 5 (gqa=union), layers 0-3"


def test_skipped_blocks_of_both_policies(results):
    evidence = claim(results, "FFD skips 82 %")["evidence"]
    for label, gqa in (("ffd", "union"), ("per_head", "per_head")):
        assert f"gqa={gqa}: {100 - 100 * mean(cells(results, label, 'block_keep_ratio', '5')):.2f} %" in evidence


def test_pseudo_max(results):
    exact = np.concatenate([a.ravel() for a in cells(results, "ffd", "pseudo_max_gap_exact")])
    assert f"exactly zero in {100 * np.mean(exact[~np.isnan(exact)] == 0):.2f} %" \
        in claim(results, "The pseudo-max is")["evidence"]
    gap = np.concatenate([a.ravel() for a in cells(results, "ffd", "pseudo_max_gap_thumbnail")])
    one = claim(results, "The pseudo-max errs")
    assert f"in {100 * np.mean(gap[~np.isnan(gap)] < 0):.2f} %" in one["evidence"] and one["verdict"] == "does not hold"


def test_heads(results):
    """Sample by sample: heads of samples that were averaged first vary less."""
    heads = np.stack([np.nanmean(a, axis=1).ravel() for a in cells(results, "per_head", "keep_ratio", "5")])
    found = claim(results, "Heads keep very different")
    for value in (heads.mean(), heads.std(axis=1).mean(), heads.min(), heads.max()):
        assert f"{100 * value:.2f} %" in found["evidence"]
    assert f"{(heads.std(axis=1) / heads.mean(axis=1)).mean():.4f}" in found["evidence"]
    # as where the paper disagrees with itself
    of_cells = f"{100 * mean(cells(results, 'per_head', 'keep_ratio', '5')):.2f} %"
    assert f"({of_cells} over all cells)" in found["evidence"] \
        and f"gqa=per_head: {of_cells}" in claim(results, "Kept at delta = 5")["evidence"]
    assert f"the {heads.shape[1]} layer-head pairs of a sample" in found["evidence"] \
        and "at least their mean" in found["rule"]
    assert heads.std(axis=1).mean() > heads.mean(axis=0).std() + 1e-4, "the case is not trivial"


def test_flat_heads(results):
    with h5py.File(results) as file:
        samples = list(file["dumps/0/samples"].values())
        proxy = [np.mean([np.nanmean(s["scores"][m][()].astype(float), axis=1) for s in samples], axis=0)
                 for m in ("top1_top2_gap", "score_std")]
    flat = (proxy[0] <= np.quantile(proxy[0], 0.1)) | (proxy[1] <= np.quantile(proxy[1], 0.1))
    keep = np.mean([np.nanmean(a, axis=1) for a in cells(results, "per_head", "keep_ratio", "5")], axis=0)
    text = claim(results, "Heads with flat scores")["evidence"]
    assert (f"proxy-error pairs ({flat.sum()} of {flat.size}) keep {100 * keep[flat].mean():.2f} %, regular ones "
            f"{100 * keep[~flat].mean():.2f} %") in text
    oracle = np.mean([np.nanmean(a, axis=1) for a in cells(results, "blocks", "keep_ratio", "5")], axis=0)
    assert f"keep {100 * oracle[flat].mean():.2f} % and regular ones {100 * oracle[~flat].mean():.2f} %" \
        in claim(results, "The failure table")["evidence"]


def test_dense_layers_are_left_out(tmp_path):
    """A layer that is exact by dense_layers says nothing about what a selector keeps."""
    attest("synth", "-o", tmp_path / "d.h5", "--layers", 4, "--samples", 2, "--tokens", 1500, "--queries", 3,
           "--query-heads", 8,
           "--kv-heads", 2, "--head-dim", 32, "--value-dim", 32, "--seed", 3)
    selectors = ["ffd=ffd:dense_layers=1", "unscaled=ffd:delta_unit=unscaled,dense_layers=1",
                 "blocks=topdelta:granularity=block,dense_layers=1"]
    attest("run", tmp_path / "d.h5", "-o", tmp_path / "r.h5", "--delta", "5",
           *[part for s in selectors for part in ("--selector", s)])
    path = tmp_path / "r.h5"
    keep = {label: [a[1:] for a in cells(path, label, "keep_ratio", "5")] for label in ("ffd", "unscaled", "blocks")}
    assert mean(keep["ffd"]) < mean(cells(path, "ffd", "keep_ratio", "5")), "the case is not trivial"
    found = claims(path)
    claim_of = lambda start: next(c for text, c in found.items() if text.startswith(start))
    units = claim_of("Algorithm 1")["evidence"]
    assert all(f"keep {100 * mean(keep[label]):.2f} %" in units for label in ("ffd", "unscaled"))
    for start in ("The pseudo-max is", "The pseudo-max errs", "Heads with flat scores", "Delta = 5 marks",
                  "The failure table"):
        assert "layers 1-3" in claim_of(start)["subject"], start
    with h5py.File(path) as file:
        proxy = [
            np.mean([np.nanmean(s["scores"][m][1:].astype(float), axis=1) for s in file["dumps/0/samples"].values()],
                    axis=0) for m in ("top1_top2_gap", "score_std")]
    flat = (proxy[0] <= np.quantile(proxy[0], 0.1)) | (proxy[1] <= np.quantile(proxy[1], 0.1))
    pairs = np.mean([np.nanmean(a, axis=1) for a in keep["ffd"]], axis=0)
    assert (
        f"proxy-error pairs ({flat.sum()} of {flat.size}) keep {100 * pairs[flat].mean():.2f} %, regular ones "
        f"{100 * pairs[~flat].mean():.2f} %"
            in claim_of("Heads with flat scores")["evidence"])


def test_correlation_by_layer(results):
    ours, theirs = (np.stack(cells(results, label, "spearman")) for label in ("ffd", "quest:dense_layers=0"))
    won = sum(np.nanmean(ours[:, y]) > np.nanmean(theirs[:, y]) for y in range(4))
    found = claim(results, "FFD's estimate has")
    assert f"higher in {won} of 4 layers" in found["evidence"] and "the model has" not in found["evidence"] \
        and "layers 0-3" in found["subject"]


def test_what_is_compared_is_alike(tmp_path):
    """Means of the same layers stand side by side, and rules that choose the same units."""
    attest("synth", "-o", tmp_path / "d.h5", "--layers", 4, "--samples", 5, "--tokens", 600, "--queries", 2,
           "--query-heads", 4, "--kv-heads", 2, "--head-dim", 16, "--value-dim", 16, "--seed", 3)
    selectors = ["blocks=topdelta:granularity=block", "topk", "topdelta", "ffd", "quest:dense_layers=2"]
    attest("run", tmp_path / "d.h5", "-o", tmp_path / "r.h5", "--delta", "1:9:2", "--budget", "64,128,256",
           *[part for s in selectors for part in ("--selector", s)])
    ours, theirs = (np.stack(cells(tmp_path / "r.h5", label, "spearman")) for label in ("ffd", "quest:dense_layers=2"))
    assert np.isnan(theirs[:, :2]).all() and abs(np.nanmean(ours) - np.nanmean(ours[:, 2:])) > 1e-3
    found = re.search(r"over their cells ([0-9.]+) .* against ([0-9.]+) ",
                      claim(tmp_path / "r.h5", "FFD's estimate has")["evidence"])
    assert [float(x) for x in found.groups()] == pytest.approx(
        [np.nanmean(ours[:, 2:]), np.nanmean(theirs[:, 2:])], abs=1e-4)
    assert claim(tmp_path / "r.h5", "Top-delta adapts")["subject"].startswith("topdelta and topk, ")


def test_the_gaps_are_of_no_global_pseudo_max(tmp_path):
    """They are stored for every ffd, from sink and local blocks, which are not what such a selector looks at."""
    attest("synth", "-o", tmp_path / "d.h5", "--layers", 1, "--samples", 2, "--tokens", 600, "--queries", 2,
           "--query-heads", 2, "--kv-heads", 1, "--head-dim", 16, "--value-dim", 16)
    for name, more, figure in (("alone", [], None), ("both", ["--selector", "ffd"], "ffd")):
        path = tmp_path / f"{name}.h5"
        attest("run", tmp_path / "d.h5", "-o", path, "--selector", "whole=ffd:pseudo_max=global", *more, "--delta", 5)
        made = json.loads(attest("figures", path, "-o", tmp_path / name, "--only", "pseudo_max_gap", "--format", "svg",
                                 "--json", expect=0 if figure else 4).stdout or "{}")
        for start in ("The pseudo-max is", "The pseudo-max errs"):
            found = claim(path, start)
            assert found["subject"].startswith("ffd") if figure else "needs ffd" in found["evidence"], (name, found)
        if figure:
            texts = [f["text"] for e in made["experiments"] for f in e["findings"]]
            assert texts and not any("whole" in text for text in texts)


def test_some_layers_are_not_every_layer(changed, results):
    def ranks(value):
        def edit(group, layers):
            group["spearman"][...] = value
        return edit

    start = "FFD's estimate has"
    path = changed("ffd", ranks(1.0))
    assert claim(path, start)["verdict"] == "holds"
    with h5py.File(path, "r+") as file:
        file["dumps/0"].attrs["num_layers"] = 8
    found = claim(path, start)
    assert found["verdict"] == "cannot tell" and "higher in 4 of 4 layers (the model has 8)" in found["evidence"] \
        and "every layer of the model" in found["rule"]
    path = changed("ffd", ranks(-1.0))
    with h5py.File(path, "r+") as file:
        file["dumps/0"].attrs["num_layers"] = 8
    assert claim(path, start)["verdict"] == "does not hold", "one layer refutes what is said of all"


def test_recall_at_equal_bytes(results):
    def curve(label):
        with h5py.File(results) as file:
            labels = list(file["dumps/0/samples"].values())[0][label]["setting_labels"].asstr()[()]
        points = [(mean(cells(results, label, "io_ratio", s)), mean(cells(results, label, "recall", s)))
                  for s in labels]
        return np.array(sorted(points)).T

    ours, theirs = curve("ffd"), curve("quest:dense_layers=0")
    low, high = max(ours[0][0], theirs[0][0]), min(ours[0][-1], theirs[0][-1])
    shared = sorted({io for io in [*ours[0], *theirs[0]] if low <= io <= high})
    won = sum(np.interp(io, *ours) >= np.interp(io, *theirs) for io in shared)
    one = claim(results, "At equal bytes FFD's recall")
    assert f"better for ffd at {won} of {len(shared)} io ratios" in one["evidence"]
    assert "over the samples clearly so at" in one["evidence"]


def test_equal_bytes_are_judged_over_samples(changed):
    """Clearly better everywhere holds, clearly worse falls, and what differs from sample to sample cannot be told."""
    def recalls(values):
        counter = iter(range(6))

        def edit(group, layers):
            group["recall"][...] = values[next(counter)]
        return edit

    start = "At equal bytes FFD's recall"
    assert claim(changed("ffd", recalls([1.0] * 6)), start)["verdict"] == "holds"
    assert claim(changed("ffd", recalls([0.0] * 6)), start)["verdict"] == "does not hold"
    assert claim(changed("ffd", recalls([1, 0, 1, 0.2, 1, 0.4])), start)["verdict"] == "cannot tell"


def test_equal_samples_of_two_dumps_are_two_samples(results, tmp_path):
    """Three samples in each of two dumps are enough to be judged, as six of one are."""
    with h5py.File(results) as file, h5py.File(tmp_path / "r.h5", "w") as made:
        made.attrs.update(file.attrs)
        for dump in "01":
            file.copy("dumps/0", made.require_group("dumps"), name=dump)
            made[f"dumps/{dump}"].attrs["path"] = f"{dump}.h5"
            for sample in list(made[f"dumps/{dump}/samples"])[3:]:
                del made[f"dumps/{dump}/samples/{sample}"]
            for sample in made[f"dumps/{dump}/samples"].values():
                sample["ffd/recall"][...] = 1
    found = claim(tmp_path / "r.h5", "At equal bytes FFD's recall")
    assert found["verdict"] == "holds", found


def test_a_budget_that_few_samples_reach_is_told(changed):
    """Every difference is clear, but what ffd reads at delta 9 is read by four of six samples alone."""
    order = iter(range(6))

    def better(group, layers):
        group["recall"][...] = 1
        group["io_ratio"][...] = np.minimum(np.linspace(0.2, 0.9, group["recall"].shape[-1]),
                                            0.6 if next(order) < 2 else 1)

    found = claim(changed("ffd", better), "At equal bytes FFD's recall")
    clear, judged = map(int, re.search(r"clearly so at (\d+) of (\d+)", found["evidence"]).groups())
    points = int(re.search(r"at \d+ of (\d+) io ratios", found["evidence"]).group(1))
    assert clear == judged < points \
        and f"clearly not at 0 ({points - judged} reached by fewer than 5 samples)" in found["evidence"], found
    assert found["rule"].startswith("at every one that five samples reach")


def test_few_samples_and_single_layers_say_nothing(results, changed, tmp_path):
    """Three samples do not hold where more cannot tell; layer 1 alone does not speak of the first two."""
    def perfect(group, layers):
        group["recall"][...] = 1

    path = changed("ffd", perfect)
    assert claim(path, "FFD needs no exception")["verdict"] == "holds"
    with h5py.File(path, "r+") as file:
        samples = file["dumps/0/samples"]
        for name in list(samples)[3:]:
            del samples[name]
    for start in ("Delta = 5 gives", "FFD needs no exception", "Only tokens below"):
        assert claim(path, start)["verdict"] in ("cannot tell", "does not hold"), start
    assert claim(path, "Delta = 5 gives")["verdict"] == "cannot tell" \
        and "3 samples, from" in claim(path, "Delta = 5 gives")["evidence"]
    attest("run", results.parent / "d.h5", "-o", tmp_path / "one.h5", "--selector", "ffd", "--delta", "5", "--layers",
           "1-3")
    assert claim(tmp_path / "one.h5", "FFD needs no exception")["evidence"] == "needs layers 0 and 1, and others"


def test_about_one_per_cent_is_not_two(changed):
    def salient(value):
        def edit(group, layers):
            group["salient_ratio"][...] = value
        return edit

    for value, verdict in ((0.01, "holds"), (0.018, "does not hold"), (0.002, "does not hold")):
        assert claim(changed("ffd", salient(value)), "Delta = 5 marks about")["verdict"] == verdict


def test_a_vacuous_bound_holds_nothing(results, tmp_path):
    """Where the bound is 100 % no tail exceeds it."""
    attest("run", results.parent / "d.h5", "-o", tmp_path / "v.h5", "--selector", "ffd", "--delta", "5", "--lambdas",
           "0.01,0.02")
    found = claim(tmp_path / "v.h5", "The scanning error is concentrated")
    assert found["verdict"] == "cannot tell" and found["evidence"].startswith("vacuous: ")


def test_bounds_are_judged_over_samples(results, tmp_path):
    """A bound that no row of a single sample exceeds is not shown for others; one that a row exceeds is refuted by
    it."""
    theorem, misses = "The scanning error is concentrated", "Of the tokens above the threshold"
    attest("run", results.parent / "d.h5", "-o", tmp_path / "six.h5", "--selector", "ffd", "--delta", "5", "--lambdas",
           "1,4,8")
    six = {start: claim(tmp_path / "six.h5", start) for start in (theorem, misses)}
    assert all(c["subject"].endswith("of 4 layers, 6 samples") for c in six.values()), six
    assert six[misses]["verdict"] == "holds" and "over the samples clearly so at" in six[misses]["evidence"]
    with h5py.File(tmp_path / "six.h5") as file:
        names = list(file["dumps/0/samples"])
    attest("run", results.parent / "d.h5", "-o", tmp_path / "one.h5", "--selector", "ffd", "--delta", "5", "--lambdas",
           "1,4,8", "--samples", names[0])
    for start in (theorem, misses):
        assert claim(tmp_path / "one.h5", start)["verdict"] == "cannot tell", start
    with h5py.File(tmp_path / "one.h5", "r+") as file:
        for sample in file["dumps/0/samples"].values():
            sample["ffd/scan_error_tail"][0, 0, 0] = 1
    assert claim(tmp_path / "one.h5", theorem)["verdict"] == "does not hold"


def test_what_is_dropped(results, changed):
    gap = np.concatenate([a.ravel() for a in cells(results, "ffd", "dropped_gap", "5")])
    gap = gap[~np.isnan(gap)]
    one = claim(results, "Only tokens below")
    assert one["verdict"] == ("holds" if gap.min() >= 5 else "does not hold")
    assert f"{100 * np.mean(gap < 5):.2f} %" in one["evidence"] and f"{gap.min():.2g} nats below" in one["evidence"]

    def farther(group, layers):
        group["dropped_gap"][...] = np.maximum(group["dropped_gap"][()], 5)

    def nearer(group, layers):
        group["dropped_gap"][0, 0, 0] = 4.5

    assert claim(changed("ffd", farther), "Only tokens below")["verdict"] == "holds"
    assert claim(changed("ffd", nearer), "Only tokens below")["verdict"] == "does not hold"


def test_planted_cells_turn_verdicts(changed):
    def perfect(group, layers):
        group["recall"][...] = 1

    def poor_in_the_first_layer(group, layers):
        group["recall"][...] = 0.9999
        group["recall"][0] = 0.5

    assert claim(changed("ffd", perfect), "Delta = 5 gives")["verdict"] == "holds"
    assert claim(changed("ffd", perfect), "FFD needs no exception")["verdict"] == "holds"
    assert claim(changed("ffd", poor_in_the_first_layer), "Delta = 5 gives")["verdict"] == "does not hold"
    assert claim(changed("ffd", poor_in_the_first_layer), "FFD needs no exception")["verdict"] == "does not hold"

    def nothing_kept(group, layers):
        group["block_keep_ratio"][...] = 0

    assert claim(changed("per_head", nothing_kept), "FFD skips 73 %")["verdict"] == "holds"

    def above(group, layers):
        group["pseudo_max_gap_thumbnail"][...] = 0.5

    assert claim(changed("ffd", above), "The pseudo-max errs")["verdict"] == "holds"


def test_what_is_missing_is_said_with_the_options_that_would_tell(tmp_path, results):
    attest("run", results.parent / "d.h5", "-o", tmp_path / "q.h5", "--selector", "quest", "--budget", 256)
    found = claims(tmp_path / "q.h5")
    assert {c["verdict"] for c in found.values()} == {"cannot tell"}
    one = found["FFD skips 82 % of the blocks at delta = 5"]
    assert (one["evidence"], one["run_options"]) == ("needs ffd at delta 5", "--selector ffd --delta 5")
    for c in found.values():  # the options are such that `attest run` takes them
        if c["run_options"]:
            attest("run", results.parent / "d.h5", "-o", tmp_path / "again.h5", "--force", *c["run_options"].split())


def test_a_budget_of_5_is_no_delta(tmp_path, results):
    """Tokens or per cent of ffd's top-k rule, with every option that claims look for."""
    ffd = "ffd:rule=topk,dense_layers=0"
    attest("run", results.parent / "d.h5", "-o", tmp_path / "b.h5", "--budget", "5,5%", *[
        part for s in (ffd, f"{ffd},residual=exact", f"{ffd},delta_unit=unscaled") for part in ("--selector", s)])
    found = claims(tmp_path / "b.h5")
    at_5 = [c for c in found.values() if c["run_options"].endswith("--delta 5")]
    assert {c["verdict"] for c in at_5} == {"cannot tell"}
    starts = ("FFD needs no exception", "The residual", "Algorithm 1", "Delta = 5 gives", "FFD skips 82 %",
              "The scanning error")
    assert not [start for start in starts if not any(c["claim"].startswith(start) for c in at_5)]


def test_deltas_are_in_nats(tmp_path, results):
    """5 in another unit is not the paper's delta, also where that selector comes first."""
    dump = results.parent / "d.h5"
    others = ["--selector", "bits=ffd:delta_unit=log2,dense_layers=0", "--selector", "unscaled=ffd:delta_unit=unscaled"]
    attest("run", dump, "-o", tmp_path / "others.h5", "--delta", 5, *others)
    assert claim(tmp_path / "others.h5", "Only tokens below e^-5")["evidence"] == "needs ffd at delta 5"
    attest("run", dump, "-o", tmp_path / "all.h5", "--delta", 5, *others, "--selector", "nats=ffd:dense_layers=0")
    for start in ("Delta = 5 gives", "FFD needs no exception", "FFD skips 82 %", "Only tokens below", "Delta = 5 marks",
                  "Salient tokens"):
        assert claim(tmp_path / "all.h5", start)["subject"].startswith("nats at delta 5"), start
    attest("run", dump, "-o", tmp_path / "alone.h5", "--delta", 5, "--selector", "nats=ffd:dense_layers=0")
    assert claim(tmp_path / "all.h5", "FFD needs no exception")["evidence"] == \
        claim(tmp_path / "alone.h5", "FFD needs no exception")["evidence"]


def test_the_page_is_markdown_in_a_file(results, tmp_path):
    page = attest("claims", results).stdout
    assert page.startswith("# The paper's claims") and page.count("\n| ") >= 24 and "| Rule |" in page \
        and "results r.h5 (" in page
    attest("claims", results, "-o", tmp_path / "c.md")
    assert (tmp_path / "c.md").read_text() == page
    refused = attest("claims", results, "-o", tmp_path / "c.md", expect=5).stderr
    assert refused.count("\n") == 1 and "c.md" in refused
    attest("claims", results, "-o", tmp_path / "c.md", "--force")


def test_bad_input(tmp_path):
    assert "gone.h5" in attest("claims", tmp_path / "gone.h5", expect=4).stderr
    assert "-o" in attest("claims", tmp_path / "gone.h5", "-o", "", expect=2).stderr


def test_selectors_are_compared_over_samples_that_have_both(results, tmp_path):
    """A second file, of other prompts, has ffd alone, and it is bad there: that says nothing of ffd against quest."""
    attest("synth", "-o", tmp_path / "d.h5", "--layers", 4, "--samples", 2, "--tokens", 1500, "--queries", 3,
           "--query-heads", 8, "--kv-heads", 2, "--head-dim", 32, "--value-dim", 32, "--seed", 4)
    attest("run", tmp_path / "d.h5", "-o", tmp_path / "b.h5", "--delta", "1:9:1", "--selector", "ffd")
    with h5py.File(tmp_path / "b.h5", "r+") as file:
        for sample in file["dumps/0/samples"].values():
            for metric in ("recall", "spearman", "spearman_block128"):
                sample["ffd"][metric][...] = 0.01
    pooled = json.loads(attest("claims", results, tmp_path / "b.h5", "--json").stdout)["studies"][0]["claims"]
    compared = [c for c in pooled if "ffd and quest" in c["subject"]]
    alone = claims(results)
    assert len(compared) >= 4
    for one in compared:
        assert one == alone[one["claim"]]
