"""torch.ops.attest.attend beside `attest run` of the same numbers: every selector, several groups, lengths and
layers."""
import subprocess

import h5py
import numpy as np
import pytest

from attest_program import ATTEST
from attend_cases import SCALE, attend, tensors, torch
from near import FLOAT32, assert_near

ERROR, CELLS = 1e-4, 2e-6  # relative, absolute: differences of float32 outputs
# Label: (selector, setting, the option of attest run)
SELECTORS = {
    "exact": ("exact", 0, None),
    "ffd": ("ffd", 0.5, "--delta"),
    "ffd_small": ("ffd:block=32,sub_block=16,gqa=per_head", 0.5, "--delta"),
    "ffd_none": ("ffd:residual=none", 0.5, "--delta"),
    "ffd_exact": ("ffd:scan=exact", 0.5, "--delta"),
    "topdelta": ("topdelta", 0.5, "--delta"),
    "quest": ("quest", 128, "--budget"),
    "quest_kernel": ("quest:preset=kernel,gqa=shared", 128, "--budget"),
    "streaming": ("streaming_llm", 128, "--budget"),
    "topk": ("topk:gqa=union", 128, "--budget"),
    "sparq": ("sparq", 128, "--budget"),
    "kivi": ("kivi", 0, None),
    "twilight": ("twilight:base_budget=256", 0.85, "--p"),
    "twilight_reference": ("twilight:base=none,rule=reference", 0.85, "--p"),
    "topp": ("topp", 0.85, "--p"),
    "skip": ("skip_softmax:unit=factor", 10, "--factor"),
    "sale": ("sale", 0.5, "--delta"),
    "kv_fp8": ("kv_cache:k=fp8_e4m3,v=fp8_e5m2,k_scale=amax,v_scale=amax_head", 0, None),
    "kv_q8": ("kv_cache:k=q8_0,v=q4_0", 0, None),
}
# Layers 0 and 1 are dense in quest and twilight; 2 has a window, 3 sinks.
LAYERS = {0: {}, 2: dict(window=200), 3: dict(sinks=True), 4: {}}
CASES = {
    "group of 4": dict(heads=4, kv_heads=1, queries=3, tokens=400, dim=64, value_dim=64),
    "group of 1": dict(heads=2, kv_heads=2, queries=1, tokens=777, dim=32, value_dim=64),
    "short": dict(heads=4, kv_heads=2, queries=2, tokens=20, dim=32, value_dim=32),
    "softcap": dict(heads=8, kv_heads=2, queries=40, tokens=513, dim=32, value_dim=32, softcap=5.0),
}


def write_dump(path, layers, softcap):
    q, k, v = layers[0][0]
    with h5py.File(path, "w") as file:
        file.attrs.update(format="attention-dump", format_version=1, model="m", num_layers=max(layers) + 1,
                          num_query_heads=q.shape[1], num_kv_heads=k.shape[1], head_dim=q.shape[3],
                          value_dim=v.shape[3],
                          softmax_scale=SCALE)
        if softcap:
            file.attrs["logit_softcap"] = softcap
        sample = file.create_group("samples/s")
        tokens = k.shape[2]
        sample.attrs.update(task="t", num_tokens=tokens, prompt_length=tokens)
        sample["query_positions"] = np.arange(tokens - q.shape[2], tokens)
        for layer, (of_layer, options) in layers.items():
            group = sample.create_group(f"layers/{layer}")
            for name, tensor in zip("qkv", of_layer):
                array = tensor[0].transpose(0, 1) if name == "q" else tensor[0]
                group.create_dataset(name, data=np.ascontiguousarray(array.float().numpy().astype("<f4")))
            if "window" in options:
                group.attrs["sliding_window"] = options["window"]
            if "sinks" in options:
                group["sinks"] = options["sinks"].numpy()


@pytest.fixture(scope="module", params=CASES)
def study(request, tmp_path_factory):
    """(layers, softcap, results of attest run)"""
    shape = dict(CASES[request.param])
    softcap = shape.pop("softcap", 0.0)
    layers = {}
    for layer, options in LAYERS.items():
        options = dict(options)
        if "sinks" in options:
            options["sinks"] = torch.linspace(-1, 5, shape["heads"])
        layers[layer] = (tensors(**shape, dtype=torch.float32, seed=layer), options)
    folder = tmp_path_factory.mktemp("study")
    write_dump(folder / "dump.h5", layers, softcap)
    command = [ATTEST, "run", "dump.h5", "-o", "results.h5", "--device", "cpu", "--quiet"]
    for label, (selector, _, _) in SELECTORS.items():
        command += ["--selector", f"{label}={selector}"]
    for option, setting in {option: setting for _, setting, option in SELECTORS.values() if option}.items():
        command += [option, str(setting)]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    with h5py.File(folder / "results.h5") as file:
        sample = file["dumps/0/samples/s"]
        yield layers, softcap, {
            label: {name: sample[label][name][()] for name in ("lse_error", "output_error", "keep_ratio", "io_ratio")}
                                for label in SELECTORS}


@pytest.mark.parametrize("label", SELECTORS)
def test_the_operator_is_the_study(study, label):
    layers, softcap, results = study
    selector, setting, _ = SELECTORS[label]
    for i, (layer, (qkv, options)) in enumerate(layers.items()):
        out, lse, kept = attend(*qkv, selector, setting, layer=layer, softcap=softcap, **options)
        exact_out, exact_lse, _ = attend(*qkv, layer=layer, softcap=softcap, **options)
        found = {name: values[i, ..., 0] for name, values in results[label].items()}  # [N, Hq]
        error = ((out - exact_out).double().norm(dim=3) / exact_out.double().norm(dim=3))[0].T
        assert_near(error, found["output_error"], rel=ERROR, abs=CELLS)
        assert_near((lse - exact_lse).abs()[0].T, found["lse_error"], rel=FLOAT32, abs=CELLS)
        # The tokens of a group are at least those of each of its heads, and at most their sum.
        queries, tokens = qkv[0].shape[2], qkv[1].shape[2]
        visible = np.minimum(np.arange(tokens - queries, tokens) + 1, options.get("window", tokens))
        by_head = np.rint(found["keep_ratio"] * visible[:, None]).reshape(queries, kept.shape[1], -1)
        of_group = kept[0].T.numpy()
        assert (of_group >= by_head.max(2)).all() and (of_group <= np.minimum(by_head.sum(2), visible[:, None])).all()


def test_the_selectors_keep_less_than_all(study):
    """So that the test above compares selections that matter."""
    layers, _, results = study
    if layers[4][0][1].shape[2] < 100:
        pytest.skip("too short to drop anything")
    for label in ("ffd_small", "quest", "streaming", "twilight", "topk"):
        assert results[label]["keep_ratio"][-1].mean() < 0.95, label
