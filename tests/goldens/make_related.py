#!/usr/bin/env python3
"""Makes the case `related`: dump, channel ranking, arguments, expected results of sparq, double_sparsity and sale.

This is a second implementation of methods and metrics, from their definitions and not from the program's sources, one
query and one setting at a time, so that an error of the program shows. Quantisers (scales, codes, dequantised values)
work in float32, everything else in float64. The same versions of numpy and h5py write identical files.
"""

import json
from collections import namedtuple
from pathlib import Path

import h5py
import numpy as np

FOLDER = Path(__file__).resolve().parent
D, HQ, HKV = 64, 6, 2  # value_dim = head_dim
G = HQ // HKV
SCALE = D**-0.5
SEVEN = np.float32(7)  # largest code of a symmetric int4
LAYERS = [1, 4]  # 1 has learned sinks and is dense in double_sparsity by default; 4 has a window
WINDOW = 275
STUDIED, CALIBRATION = "studied", "calibration"
# No length L = position + 1 is a multiple of 16 or 32. L = 151 has only sale's sink and local blocks; 301 and 421 have
# more.
POSITIONS = {STUDIED: [150, 300, 420], CALIBRATION: [60, 77, 98]}
TOKENS = {STUDIED: 430, CALIBRATION: 100}
SPANS = [[20, 37], [30, 44], [280, 310]]  # overlapping, and cut by query positions and the window
# Unsorted, tokens mixed with per cent: results keep the order of the grid as given.
BUDGETS = ["50%", "16", "101", "12.5%"]
DELTAS = ["6", "1", "3", "inf"]
LAMBDAS = [0.25, 0.5, 1, 2]
SALIENT_DELTA = 3.0
RANKING = "model.layers.{}.self_attn.qk_proj"
DEFAULTS = {
    "sparq": dict(rank=32, local=0.25, score="logits", count="code", mean_value="on", dense_layers=0),
    "double_sparsity": dict(channel="qk", group_factor=4, bits=4, channels="", calibrate="", dense_layers=2),
    "sale": dict(key_scale="block", dense_below=1024, dense_layers=0),
}
CASES = {
    "sparq": "sparq",
    "sparq_softmax": "sparq:score=softmax,rank=16",
    "sparq_paper": "sparq:count=paper,local=0.5,rank=8",
    "sparq_plain": "sparq:mean_value=off,local=0,rank=64,dense_layers=2",
    "ds": f"double_sparsity:calibrate={CALIBRATION}",
    "ds_q": f"double_sparsity:calibrate={CALIBRATION},channel=q,bits=2,group_factor=2,dense_layers=0",
    "ds_k": f"double_sparsity:calibrate={CALIBRATION},channel=k,bits=8,dense_layers=0",
    "ds_16": f"double_sparsity:calibrate={CALIBRATION},bits=16,group_factor=8,dense_layers=0",
    "ds_file": "double_sparsity:channels=@DIR@/related.channels.json,dense_layers=0",
    "sale": "sale",  # up to 1,024 tokens are dense, that is all sequences here
    "sale_all": "sale:dense_below=0",
    "sale_token": "sale:key_scale=token,dense_below=151",  # the shortest sequence is dense
}


def options_of(spec):
    """The selector's name, and every option with its value."""
    name, _, text = spec.partition(":")
    options = dict(DEFAULTS[name])
    for pair in filter(None, text.split(",")):
        key, value = pair.split("=")
        options[key] = type(options[key])(value)
    return name, options


def attention(rng, tokens, queries, mean, size, topics, likes):
    """q, k and v of one layer. Its samples share the mean key, channel magnitudes, topics and the heads' preferences.

    sale needs a mean key, the other two methods need channels of different magnitude. Topics last for several tokens
    and make tokens and blocks salient. Values have a non-zero mean, so that sparq's `mean_value` matters.
    """
    q, k = np.empty((queries, HQ, D)), np.empty((HKV, tokens, D))
    for g in range(HKV):
        topic = np.repeat(rng.integers(0, len(topics[g]), tokens), rng.integers(1, 12, tokens))[:tokens]
        strength = rng.gamma(2, 0.5, (tokens, 1))
        k[g] = mean[g] + size[g] * (strength * topics[g][topic] + 0.8 * rng.standard_normal((tokens, D)))
    for h in range(HQ):
        wish = rng.dirichlet(np.full(topics.shape[1], 0.3), queries) @ topics[h // G]
        q[:, h] = likes[h] * (0.7 * wish + 0.4 * rng.standard_normal((queries, D)))
    v = 0.4 + rng.standard_normal((HKV, tokens, D)) * rng.gamma(2, 0.5, (HKV, tokens, 1))
    return {"q": q, "k": k, "v": v}


def make_dump(path, rng):
    with h5py.File(path, "w") as file:
        file.attrs.update(format="attention-dump", format_version=1, model="related", num_layers=32, num_query_heads=HQ)
        file.attrs.update(num_kv_heads=HKV, head_dim=D)
        for sample, tokens in TOKENS.items():
            group = file.create_group(f"samples/{sample}")
            group.attrs.update(task="golden", num_tokens=tokens)
            group["query_positions"] = np.array(POSITIONS[sample], np.int64)
            if sample == STUDIED:
                group["spans"] = np.array(SPANS, np.int64)
        for layer in LAYERS:
            mean, size = rng.standard_normal((HKV, 1, D)), np.exp(0.5 * rng.standard_normal((HKV, 1, D)))
            topics, likes = 1.3 * rng.standard_normal((HKV, 9, D)), np.exp(0.5 * rng.standard_normal((HQ, D)))
            sinks = rng.uniform(12, 18, HQ).astype(np.float32)
            for sample, tokens in TOKENS.items():
                group = file.create_group(f"samples/{sample}/layers/{layer}")
                if layer == 1:
                    group["sinks"] = sinks
                else:
                    group.attrs["sliding_window"] = WINDOW
                values = attention(rng, tokens, len(POSITIONS[sample]), mean, size, topics, likes)
                for name, data in values.items():
                    group.create_dataset(name, data=data.astype(np.float16), compression=9, shuffle=True)


# What one query sees: q [Hq, D], k and v [Hkv, L, D], exact scores s [Hq, L], learned sinks [Hq] (-inf: none), spans as
# flags [L], and calibration: "q" mean |q| [Hq, D], "k" mean |k| [Hkv, D], "file" the channel order of the file [Hq, D].
View = namedtuple("View", "q k v s sinks spans calibration")
# A method at one query: estimate [Hq, L] (None: dense), keep(setting) -> kept flags [Hq, L], scan bytes, and whether
# sparq blends with the mean value.
Method = namedtuple("Method", "estimate keep scan_bytes mean_value", defaults=[None, None, 0, False])


def softmax(s):
    return np.exp(s - np.logaddexp.reduce(s, -1, keepdims=True))


def best(scores, n):
    """Flags of the n largest scores; ties go to the lower position."""
    kept = np.zeros(len(scores), bool)
    kept[np.argsort(-scores, kind="stable")[:n]] = True
    return kept


def tokens_of(budget, length):
    return int(np.floor(float(budget[:-1]) * length / 100 + 1e-9)) if budget.endswith("%") else int(budget)


def sparq(view, o):
    length, estimate = view.s.shape[1], np.empty_like(view.s)
    groups = [slice(g * G, (g + 1) * G) for g in range(HKV)]
    for g, heads in enumerate(groups):
        q = view.q[heads]
        chosen = best(np.abs(q).sum(0), o["rank"])
        share = np.abs(q[:, chosen]).sum(1) / np.abs(q).sum(1)
        estimate[heads] = SCALE / np.sqrt(share)[:, None] * (q[:, chosen] @ view.k[g][:, chosen].T)

    def keep(budget):
        k, own = tokens_of(budget, length), int(o["count"] == "code")  # the released code does not count the own token
        n, forced = min(k + own, length), min(int(o["local"] * k) + own, length)
        kept = np.empty((HQ, length), bool)
        for heads in groups:
            score = (softmax(estimate[heads]) if o["score"] == "softmax" else estimate[heads]).sum(0)
            score[length - forced :] = np.inf
            kept[heads] = best(score, n)
        return kept

    mean_value = o["mean_value"] == "on"  # without it the mean is not read either
    return Method(estimate, keep, 2 * o["rank"] * length + 2 * D * mean_value, mean_value)


def quantised(x, bits):
    """Asymmetric quantisation in float32 with one range per row (token). 16 bits: unchanged."""
    if bits == 16:
        return x
    x = x.astype(np.float32)
    low = x.min(-1, keepdims=True)
    step = (x.max(-1, keepdims=True) - low) / np.float32(2**bits - 1)
    step[step == 0] = 1
    return (np.rint((x - low) / step) * step + low).astype(float)


def double_sparsity(view, o):
    length, r, estimate = view.s.shape[1], D // o["group_factor"], np.empty_like(view.s)
    for h in range(HQ):
        g = h // G
        of_q, of_k = view.calibration["q"][h], view.calibration["k"][g]
        ranked = np.argsort(-{"q": of_q, "k": of_k, "qk": of_q * of_k}[o["channel"]], kind="stable")
        chosen = (view.calibration["file"][h] if o["channels"] else ranked)[:r]
        estimate[h] = SCALE * (quantised(view.k[g][:, chosen], o["bits"]) @ quantised(view.q[h][chosen], o["bits"]))
    caches = 1 if o["channel"] == "k" else G  # one ranking per KV head, or one per query head
    scan_bytes = caches * length * (r * o["bits"] / 8 + 4 * (o["bits"] < 16))
    return Method(estimate, lambda budget: np.stack([best(x, tokens_of(budget, length)) for x in estimate]), scan_bytes)


def sale(view, o):
    length = view.s.shape[1]
    block = np.arange(length) // 32
    # In a block of 32 tokens, eight share one scale: 0, 1, 8, 9, 16, ... the first, 2, 3, 10, ... the second.
    shared = block * 4 + np.arange(length) % 8 // 2 if o["key_scale"] == "block" else np.arange(length)
    estimate = np.empty_like(view.s)
    for h in range(HQ):
        mean = view.k[h // G].mean(0)
        k, q = (view.k[h // G] - mean).astype(np.float32), view.q[h].astype(np.float32)
        largest = np.zeros(shared.max() + 1, np.float32)
        np.maximum.at(largest, shared, np.abs(k).max(1))
        largest, largest_q = largest[shared], np.abs(q).max()
        codes, codes_q = np.rint(k * SEVEN / largest[:, None]), np.rint(q * SEVEN / largest_q)  # products are exact
        steps = (largest / SEVEN).astype(float) * float(largest_q / SEVEN)
        # Removing the mean key shifts all scores by the same number. Add it back, because exact scores include it.
        estimate[h] = SCALE * (steps * (codes @ codes_q) + view.q[h] @ mean)
    # The first block and the last four to seven blocks are attended exactly, so they are always kept.
    ends = (block == 0) | (block >= block[-1] - 3 - block[-1] % 4)
    thresholds = np.logaddexp.reduce(view.s[:, ends], 1)  # m + ln Z

    def keep(delta):
        large = estimate > thresholds[:, None] - float(delta)
        return np.array([ends | np.isin(block, block[row]) for row in large])

    if length <= o["dense_below"]:  # keeping the estimate metrics follows the program
        return Method(estimate, lambda _: np.ones((HQ, length), bool), 0)
    return Method(estimate, keep, length * D / 2 + 2 * length)


def cosine(a, b):
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))  # no output is zero here


def pearson(a, b):
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return np.nan
    a, b = a - a.mean(), b - b.mean()
    return a @ b / np.sqrt((a @ a) * (b @ b))


def ranks(x):
    """Equal values share the mean of their ranks."""
    _, which, counts = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - counts / 2)[which]


def attend(s, v, kept, sink):
    """Output and log-sum-exp of the kept tokens and the learned sink."""
    lse = np.logaddexp.reduce(np.append(s[kept], sink))
    return np.exp(s[kept] - lse) @ v[kept], lse


def of_estimate(estimate, s):
    """Metrics of one head that do not depend on the setting."""
    error = estimate - s
    found = {"spearman": pearson(ranks(estimate), ranks(s)), "pearson": pearson(estimate, s)}
    for size in (16, 128):
        maxima = (x[: len(x) // size * size].reshape(-1, size).max(1) for x in (estimate, s))
        found[f"spearman_block{size}"] = pearson(*map(ranks, maxima))
    found |= {"scan_error_mean": error.mean(), "scan_error_std": error.std(), "scan_error_max": np.abs(error).max()}
    found["scan_error_tail"] = np.array([(np.abs(error) >= x).mean() for x in LAMBDAS])
    found["scan_error_lower_tail"] = np.array([(error <= -x).mean() for x in LAMBDAS])
    return found


def of_setting(view, h, kept, output, lse):
    """Metrics of one head at one setting. No rule here is a top-delta rule, so the salient set is the same for all."""
    s, mass, peak = view.s[h], softmax(view.s[h]), view.s[h].max()
    exact, exact_lse = attend(s, view.v[h // G], np.ones(len(s), bool), view.sinks[h])
    salient, seen = s >= peak - SALIENT_DELTA, view.spans.any()
    return {
        "recall": cosine(output, exact),
        "output_error": np.linalg.norm(output - exact) / np.linalg.norm(exact),
        "lse_error": abs(lse - exact_lse),
        "mass_recall": mass[kept].sum(),
        "keep_ratio": kept.mean(),
        "salient_hit_rate": kept[salient].mean(),
        "salient_hit_rate_fixed": kept[salient].mean(),
        "salient_ratio": salient.mean(),
        "missed_salient_mass": mass[salient & ~kept].sum(),
        "dropped_gap": np.nan if kept.all() else peak - s[~kept].max(),
        "span_keep": kept[view.spans].mean() if seen else np.nan,
        "span_mass_kept": mass[view.spans & kept].sum() if seen else np.nan,
    }


def of_scores(view, h):
    s, mass = view.s[h], softmax(view.s[h])
    lse = np.logaddexp.reduce(np.append(s, view.sinks[h]))
    second, first = np.sort(s)[-2:]
    found = {"lse": lse, "top1_top2_gap": first - second, "score_std": s.std(), "entropy": -mass @ np.log(mass)}
    found["sink_mass"] = np.exp(view.sinks[h] - lse) if np.isfinite(view.sinks[h]) else np.nan
    return found | {"span_mass": mass[view.spans].sum() if view.spans.any() else np.nan}


def stacked(rows, axis=0):
    rows = list(rows)
    return {metric: np.stack([row[metric] for row in rows], axis) for metric in rows[0]}


def of_case(view, layer, name, o):
    """All metrics of one selector at one query: {metric: [Hq, S], [Hq], [Hq, M] or, recall_layer, [S]}."""
    of_name = {"sparq": sparq, "double_sparsity": double_sparsity, "sale": sale}[name]
    method = Method() if layer < o["dense_layers"] else of_name(view, o)
    length, settings, dense = view.s.shape[1], [], method.estimate is None
    all_tokens = np.ones((HQ, length), bool)
    exact = np.concatenate([attend(view.s[h], view.v[h // G], all_tokens[h], view.sinks[h])[0] for h in range(HQ)])
    for setting in DELTAS if name == "sale" else BUDGETS:
        kept = all_tokens if dense else method.keep(setting)
        cells, outputs = [], []
        for h in range(HQ):
            g = h // G
            output, lse = attend(view.s[h], view.v[g], kept[h], view.sinks[h])
            if method.mean_value:
                share = softmax(method.estimate[h])[kept[h]].sum()
                output = share * output + (1 - share) * view.v[g].mean(0)
            read = method.scan_bytes + kept[g * G : (g + 1) * G].any(0).sum() * 4 * D
            cells.append(of_setting(view, h, kept[h], output, lse) | {"io_ratio": read / (4 * D * length)})
            outputs.append(output)
        settings.append(stacked(cells) | {"recall_layer": cosine(np.concatenate(outputs), exact)})
    # Without an estimate its metrics are NaN. They are computed from the exact scores only for their shapes.
    estimates = stacked(map(of_estimate, view.s if dense else method.estimate, view.s))
    return stacked(settings, -1) | {metric: x * np.nan if dense else x for metric, x in estimates.items()}


def views(dump, layer):
    """What each query of the studied sample sees in a layer."""
    group, other = (dump[f"samples/{sample}/layers/{layer}"] for sample in (STUDIED, CALIBRATION))
    q, k, v = (group[name][()].astype(float) for name in "qkv")
    calibration = {"q": np.abs(other["q"][()].astype(float)).mean(0), "k": np.abs(other["k"][()].astype(float)).mean(1)}
    calibration["file"] = json.loads((FOLDER / "related.channels.json").read_text())[RANKING.format(layer)]
    sinks = group["sinks"][()].astype(float) if "sinks" in group else np.full(HQ, -np.inf)
    spans = np.isin(np.arange(TOKENS[STUDIED]), [j for begin, end in SPANS for j in range(begin, end)])
    for n, p in enumerate(POSITIONS[STUDIED]):
        seen = slice(max(0, p + 1 - group.attrs.get("sliding_window", p + 1)), p + 1)
        s = SCALE * np.einsum("gid,gjd->gij", q[n].reshape(HKV, G, D), k[:, seen]).reshape(HQ, -1)
        yield View(q[n], k[:, seen], v[:, seen], s, sinks, spans[seen], calibration)


def make_expected(path, dump):
    seen = {layer: list(views(dump, layer)) for layer in LAYERS}
    with h5py.File(path, "w", libver="latest") as file:  # the compact layout

        def write(label, of_query, *rest):
            group = file.create_group(f"{STUDIED}/{label}")
            for metric, x in stacked(stacked(of_query(view, y, *rest) for view in seen[y]) for y in LAYERS).items():
                group[metric] = x.astype(np.float32)  # as in results
            return group.attrs

        for label, spec in CASES.items():
            name, o = options_of(spec)
            attributes = write(label, of_case, name, o)
            attributes["settings"] = [float(x.rstrip("%")) for x in (DELTAS if name == "sale" else BUDGETS)]
            attributes["dense"] = np.array([layer < o["dense_layers"] for layer in LAYERS], np.uint8)
        write("scores", lambda view, _: stacked(of_scores(view, h) for h in range(HQ)))


def main():
    rng = np.random.default_rng(20)
    make_dump(FOLDER / "related.h5", rng)
    # Like a released ranking, this one orders the channels of each query head, but at random.
    ranking = {RANKING.format(layer): [rng.permutation(D).tolist() for _ in range(HQ)] for layer in LAYERS}
    (FOLDER / "related.channels.json").write_text(json.dumps(ranking) + "\n")
    pairs = [("--selector", f"{label}={spec}") for label, spec in CASES.items()]
    pairs += [("--budget", ",".join(BUDGETS)), ("--delta", ",".join(DELTAS))]
    pairs += [("--lambdas", ",".join(f"{x:g}" for x in LAMBDAS)), ("--salient-delta", f"{SALIENT_DELTA:g}")]
    (FOLDER / "related.args").write_text("".join(f"{token}\n" for pair in pairs for token in pair))
    with h5py.File(FOLDER / "related.h5") as dump:
        make_expected(FOLDER / "related.expected.h5", dump)


if __name__ == "__main__":
    main()
