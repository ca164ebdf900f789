"""attest.vllm_plugin.recorder: batches come apart by request, whatever the order and the sizes of the passes are. The
scheduler is played by the test; every token of a request has values that tell which request and position it is."""
import resource
import types

import h5py
import numpy as np
import pytest
import torch

from attest.vllm_plugin.engine import Engine, Layer
from attest.vllm_plugin.rank import Rank
from attest.vllm_plugin.recorder import Recorder
from attest.vllm_plugin.settings import Settings
from attest.vllm_plugin.worker import multiplied_query

HEADS, KV_HEADS, DIM = 4, 2, 8


class Vllm:
    """Steps of an engine. `requests`: name -> token ids, [prompt and what is decoded]."""

    def __init__(self, folder, layers=2, prefix_caching=False, window=None, **settings):
        module = types.SimpleNamespace(kv_cache_dtype="auto", impl=types.SimpleNamespace())
        described = {n: Layer(n, module, HEADS, KV_HEADS, DIM, DIM, 0.5, None, window) for n in range(layers)}
        self.engine = Engine("0", "m", layers, described, {9: "is of another kind"}, Rank(), "X", None, prefix_caching)
        self.said, self.folder = [], folder
        self.recorder = Recorder(Settings(str(folder), **settings), self.engine, lambda: self.batch, self.said.append)
        self.known = set()

    def step(self, *parts, finished=(), resumed=(), order=None, fails_at=None, causal=True, own=None, prompt=6):
        """parts: (request, first position, number of tokens)."""
        new = [types.SimpleNamespace(
            req_id=name, num_computed_tokens=start, prompt_token_ids=list(range(prompt)),
            sampling_params=types.SimpleNamespace(extra_args=own)) for name, start, _ in parts
               if name not in self.known]
        old = [(name, start) for name, start, _ in parts if name in self.known]
        self.known |= {name for name, _, _ in parts}
        self.recorder.begin_step(types.SimpleNamespace(
            finished_req_ids=set(finished), scheduled_new_reqs=new,
            scheduled_cached_reqs=types.SimpleNamespace(req_ids=[name for name, _ in old], resumed_req_ids=set(resumed),
                                                        num_computed_tokens=[start for _, start in old]),
            num_scheduled_tokens={name: count for name, _, count in parts}))
        in_order = order or [name for name, _, _ in parts]
        by_name = {name: (start, count) for name, start, count in parts}
        ids = [(name, position) for name in in_order
               for position in range(by_name[name][0], sum(by_name[name]))]
        self.batch = in_order, torch.tensor([position for _, position in ids], dtype=torch.int32)
        for layer in self.engine.layers:
            if layer == fails_at:
                return self.recorder.give_up()
            q, k, v, out = (torch.stack([token(kind, layer, *which) for which in ids] + [torch.full_like(
                token(kind, layer, *ids[0]), 99)]) for kind in ("q", "k", "v", "output"))  # the last one is padding
            self.recorder.before(layer, q, k, v, causal)
            self.recorder.after(layer, out)
        self.recorder.end_step()

    def dump(self, name):
        return h5py.File(self.folder / f"{name}.h5")


def token(kind, layer, request, position):
    heads = KV_HEADS if kind in "kv" else HEADS
    seed = [ord(c) for c in kind + request] + [layer, position]
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((heads, DIM)).astype(np.float32))


def check(dump, request, positions, tokens):
    sample = dump[f"samples/{request}"]
    assert sample["query_positions"][:].tolist() == positions and sample.attrs["num_tokens"] == tokens
    assert sample["tokens"][:].tolist() == list(range(tokens))
    for layer, group in sample["layers"].items():
        for kind in ("q", "output"):
            expected = torch.stack([token(kind, int(layer), request, p) for p in positions])
            assert np.array_equal(group[kind][:], expected.numpy()), (layer, kind)
        for kind in "kv":
            expected = torch.stack([token(kind, int(layer), request, p) for p in range(tokens)], 1)
            assert np.array_equal(group[kind][:], expected.numpy()), (layer, kind)


def test_a_prompt_and_its_decoded_tokens(tmp_path):
    vllm = Vllm(tmp_path, last=2, decode=2)
    vllm.step(("a", 0, 6))
    vllm.step(("a", 6, 1))
    assert not list(tmp_path.iterdir())
    vllm.step(("a", 7, 1))
    check(vllm.dump("a"), "a", [4, 5, 6, 7], 8)
    assert vllm.dump("a")["samples/a"].attrs["prompt_length"] == 6
    assert not vllm.recorder.requests, "it is over for the recorder"
    vllm.step(("a", 8, 1))
    assert vllm.said == [f"{tmp_path}/a.h5: 4 queries of 8 tokens"]


def test_batches_come_apart_in_any_order_and_chunks(tmp_path):
    vllm = Vllm(tmp_path, last=3, decode=1)
    vllm.step(("a", 0, 4), ("b", 0, 2))
    vllm.step(("b", 2, 4), ("a", 4, 2), ("c", 0, 1), order=["c", "a", "b"])
    vllm.step(("a", 6, 1), ("b", 6, 1), ("c", 1, 5), order=["b", "c", "a"])
    vllm.step(("c", 6, 1))
    for name in "abc":
        check(vllm.dump(name), name, [3, 4, 5, 6], 7)


def test_a_request_that_ends_early_has_the_queries_that_came(tmp_path):
    vllm = Vllm(tmp_path, last=1, decode=5)
    vllm.step(("a", 0, 6), ("b", 0, 6))
    vllm.step(("a", 6, 1), ("b", 6, 1))
    vllm.step(("b", 7, 1), finished=["a"])
    check(vllm.dump("a"), "a", [5, 6], 7)
    vllm.recorder.finish_all()
    check(vllm.dump("b"), "b", [5, 6, 7], 8)


def test_a_request_that_ends_before_its_first_query_leaves_nothing(tmp_path):
    vllm = Vllm(tmp_path, last=1)
    vllm.step(("a", 0, 3))
    vllm.step(("b", 0, 3), finished=["a"])
    assert not list(tmp_path.iterdir()) and not vllm.said


def test_a_preempted_request_is_computed_again(tmp_path):
    vllm = Vllm(tmp_path, last=2, decode=2)
    vllm.step(("a", 0, 6))
    vllm.step(("a", 6, 1))
    vllm.step(("a", 0, 4), resumed=["a"])
    vllm.step(("a", 4, 3))
    assert vllm.recorder.requests["a"].num_rows() == 3
    vllm.step(("a", 7, 1))
    check(vllm.dump("a"), "a", [4, 5, 6, 7], 8)


def test_tokens_that_come_from_a_cache_are_refused(tmp_path):
    vllm = Vllm(tmp_path)
    vllm.step(("a", 0, 6), ("b", 4, 2))
    said = "request b: its first 4 tokens come from a cache, so that their keys do not reach the attention layers"
    assert (tmp_path / "b.refused").read_text().startswith(said) and vllm.said[0].startswith(f"not captured: {said}")
    vllm.step(("a", 8, 1))  # from a cache that the test's engine invents
    assert "request a: goes on at token 8, and 6 have reached" in (tmp_path / "a.refused").read_text()
    assert not list(tmp_path.glob("*.h5"))


def test_a_preempted_request_that_goes_on_from_the_prefix_cache_is_refused(tmp_path):
    vllm = Vllm(tmp_path, prefix_caching=True)
    vllm.step(("a", 0, 6))
    vllm.step(("a", 4, 3), resumed=["a"])
    assert "request a: was preempted and goes on from the prefix cache" in (tmp_path / "a.refused").read_text()


def test_a_step_that_fails_ends_its_requests(tmp_path):
    vllm = Vllm(tmp_path)
    vllm.step(("a", 0, 6), fails_at=1)
    vllm.recorder.finish_all()
    assert not list(tmp_path.iterdir())


def test_a_batch_of_other_requests_than_were_scheduled_ends_them_and_not_the_engine(tmp_path):
    vllm = Vllm(tmp_path, last=1, decode=0)
    scheduled = vllm.recorder.begin_step
    vllm.recorder.begin_step = lambda step: (scheduled(step), vllm.recorder.counts.update(ghost=1))
    vllm.step(("a", 0, 6))
    assert (tmp_path / "a.refused").read_text() == (
        "request a: the batch has the requests ['a'], expected ['a', 'ghost']\n")
    vllm.recorder.begin_step = scheduled
    vllm.step(("b", 0, 6))
    check(vllm.dump("b"), "b", [5], 6)


def test_attention_that_is_not_causal_is_refused(tmp_path):
    vllm = Vllm(tmp_path)
    vllm.step(("a", 0, 6), causal=False)
    assert "request a: layer 0: its attention is not causal" in (tmp_path / "a.refused").read_text()


def test_the_first_requests_are_taken_and_those_with_arguments(tmp_path):
    vllm = Vllm(tmp_path, requests=1, last=1, decode=0)
    vllm.step(("a", 0, 6), ("b", 0, 6))
    vllm.step(("c", 0, 6), own={"attest_name": "named", "attest_layers": "1"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5", "named.h5"]
    assert list(vllm.dump("named")["samples/named/layers"]) == ["1"]


@pytest.mark.parametrize("layers, sentence", [
    ("9", "there is no layer 9, the model has 2"), ("0-1,3-", "there is no layer 3")])
def test_wrong_layers_of_a_request_are_refused(tmp_path, layers, sentence):
    Vllm(tmp_path).step(("a", 0, 6), own={"attest_layers": layers, "attest_name": "x"})
    assert f"request x: {sentence}" in (tmp_path / "x.refused").read_text()


def test_memory_has_a_limit(tmp_path):
    vllm = Vllm(tmp_path, memory=1e-6)
    vllm.step(("a", 0, 6))
    assert "ATTEST_VLLM_MEMORY allows 1e-06" in (tmp_path / "a.refused").read_text()


@pytest.mark.parametrize("own", [{"attest_decode": 999_999_999}, {"attest_positions": [2**50]},
                                 {"attest_positions": f"[{2**70}]"}])
def test_what_a_client_asks_for_is_not_allocated_first(own, tmp_path, monkeypatch):
    """An engine would die of it, with all of its requests."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    vllm = Vllm(tmp_path)
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + (1 << 30), limits[1]))
    try:
        vllm.step(("a", 0, 6), own=own)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert "ATTEST_VLLM_MEMORY allows 4" in (tmp_path / "a.refused").read_text()


def address_space():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()


def test_a_name_with_any_characters_is_a_file_of_the_folder(tmp_path):
    vllm = Vllm(tmp_path, last=1, decode=0)
    vllm.step(("a", 0, 6), own={"attest_name": "../%2e ü"})
    (refused,) = tmp_path.iterdir()
    assert "attest_name: expected the name of one HDF5 group" in refused.read_text()
    vllm.step(("b", 0, 6), own={"attest_name": "..%2e ü"})
    assert (tmp_path / "..%252e %C3%BC.h5").exists()


def test_long_names_with_the_same_beginning_are_two_files(tmp_path):
    vllm = Vllm(tmp_path, last=1, decode=0)
    for request, name in ("a", "x" + "語" * 40), ("b", "x" + "語" * 41), ("c", "y" * 200):
        vllm.step((request, 0, 6), own={"attest_name": name})
    *long, plain = sorted(path.stem for path in tmp_path.glob("*.h5"))
    assert plain == "y" * 200 and len(long) == 2 and not list(tmp_path.glob("*.refused"))
    for name in long:
        beginning, _, digest = name.rpartition("-")
        assert len(name) <= 200 and len(digest) == 16 and beginning == "x" + "%E8%AA%9E" * 20


def test_a_second_request_of_a_name_is_refused(tmp_path):
    vllm = Vllm(tmp_path, last=1, decode=0)
    vllm.step(("a", 0, 6), own={"attest_name": "x"})
    first = (tmp_path / "x.h5").read_bytes()
    vllm.step(("b", 0, 6), own={"attest_name": "x"})
    assert (tmp_path / "x.refused").read_text() == (
        f"request x: {tmp_path}/x.h5 is of an earlier request of this name, expected another attest_name\n")
    assert (tmp_path / "x.h5").read_bytes() == first


def test_a_folder_that_is_gone_does_not_end_the_engine(tmp_path):
    vllm = Vllm(tmp_path / "captured", last=1, decode=1)
    vllm.step(("a", 0, 6), ("b", 0, 2))
    vllm.folder.rmdir()
    vllm.step(("a", 6, 1), ("b", 8, 1), ("c", 0, 6))  # a is complete, tokens of b are missing
    vllm.step(("d", 2, 4), finished=["c"])
    refused = [line.split()[3] for line in vllm.said if line.startswith("not captured: request ")]
    assert refused == ["b:", "a:", "c:", "d:"] and not vllm.recorder.requests
    assert sum(".refused: cannot be written (" in line for line in vllm.said) == 4


def test_windows_and_sinks_go_with_the_layer(tmp_path):
    vllm = Vllm(tmp_path, window=3, last=1, decode=0)
    vllm.engine.layers[0].module.impl.sinks = torch.tensor([1., 2, 3, 4], dtype=torch.bfloat16)
    vllm.step(("a", 0, 6))
    layer = vllm.dump("a")["samples/a/layers/0"]
    assert layer.attrs["sliding_window"] == 3 and layer["sinks"][:].tolist() == [1, 2, 3, 4]


def test_queries_in_8_bits_are_written_as_attention_multiplies_them():
    key = torch.zeros(3, KV_HEADS, DIM, dtype=torch.bfloat16)
    query = torch.randn(3, HEADS, DIM).to(torch.float8_e4m3fn)
    one = types.SimpleNamespace(_q_scale=torch.tensor(0.5))
    assert torch.equal(multiplied_query(one, query, key).float(), query.float() / 2)
    per_head = types.SimpleNamespace(_q_scale=torch.tensor([1.0, 4.0]))
    found = multiplied_query(per_head, query, key)
    assert torch.equal(found[:, 1].float(), query[:, 1].float()) \
        and torch.equal(found[:, 2].float(), 4 * query[:, 2].float())
    assert multiplied_query(one, key, key) is key
