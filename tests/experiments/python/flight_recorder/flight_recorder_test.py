"""`attest import FOLDER` of a folder of FlashInfer's flight recorder: paged and ragged keys and values come together,
and batches apart. The folder is made here (recorded_calls.py); its outputs are attention of the requests as they were
before they were put into pages."""
import json

import h5py
import numpy as np
import pytest

from attest.flight_recorder.recording import parameter_names, read_recording
from attest.flight_recorder.stored import TABLES
from attest_program import attest, run_attest
from near import FLOAT32, assert_near
from recorded_calls import (DECODE, PAGED_PREFILL, RAGGED_PREFILL, Coded, FlightRecorder, attention, bfloat16)

HQ, HKV, D, PAGE = 4, 2, 8, 4
LENGTHS, QUERIES = (9, 1, 4), (3, 1, 4)  # keys and queries of the requests of a batch
ROUNDING = 2e-3  # of float16 outputs, relative to the largest

rng = np.random.default_rng(5)


class Requests:
    """Keys, values and queries of a batch in float16. `lengths`: keys, `queries`: the last ones of them have a
    query."""

    def __init__(self, lengths=LENGTHS, queries=QUERIES, **attention_options):
        self.lengths, self.queries, self.options = lengths, queries, {"scale": D**-0.5} | attention_options
        self.q, self.k, self.v = ([rng.standard_normal((count, heads, D)).astype(np.float16) for count in counts]
                                  for counts, heads in ((queries, HQ), (lengths, HKV), (lengths, HKV)))
        self.outputs, self.lses = zip(*(
            attention(q, k, v, range(len(k) - len(q), len(k)), **self.options) for q, k, v in zip(
                self.q, self.k, self.v, strict=True)))

    def starts(self, counts):
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    def result(self, lse=False, factor=1 / np.log(2)):
        output = np.concatenate(self.outputs).astype(np.float16)
        return (output, (np.concatenate(self.lses) * factor).astype(np.float32)) if lse else output

    def paged(self, layout="NHD", pages=9, together=True):
        """(cache, indptr, indices, last_page_len): pages in a random order among pages of noise."""
        free = iter(rng.permutation(pages))
        k, v = (rng.standard_normal((pages, PAGE, HKV, D)).astype(np.float16) for _ in "kv")
        indices, last = [], []
        for keys, values in zip(self.k, self.v, strict=True):
            for begin in range(0, len(keys), PAGE):
                page = next(free)
                indices.append(page)
                count = len(keys[begin:begin + PAGE])
                k[page, :count], v[page, :count] = keys[begin:begin + PAGE], values[begin:begin + PAGE]
            last.append(count)
        if layout == "HND":
            k, v = k.swapaxes(1, 2), v.swapaxes(1, 2)
        counts = [-(-length // PAGE) for length in self.lengths]
        return (np.stack([k, v], 1) if together else (k, v), self.starts(counts), np.array(indices, np.int32),
                np.array(last, np.int32))


def run(folder, *words, **options):
    return run_attest("import", folder, "-o", folder.parent / "d.h5", "--force", *words, **options)


def imported(folder, *words):
    done = run(folder, *words)
    assert done.returncode == 0, done.stderr
    attest("inspect", folder.parent / "d.h5", "--check")
    return h5py.File(folder.parent / "d.h5")


def check(dump, sample, layer, requests, number, kept=4, lse=False, scale=1.0):
    """That a layer of a sample is request `number`, and its outputs attention of what the dump holds."""
    group, kept = dump[f"samples/{sample}"], min(kept, requests.queries[number])
    length = requests.lengths[number]
    assert group.attrs["num_tokens"] == length
    assert group["query_positions"][:].tolist() == list(range(length - kept, length))
    layer = group[f"layers/{layer}"]
    np.testing.assert_array_equal(layer["q"][:], requests.q[number][-kept:])
    np.testing.assert_array_equal(layer["k"][:], requests.k[number].transpose(1, 0, 2))
    np.testing.assert_array_equal(layer["v"][:], requests.v[number].transpose(1, 0, 2) * scale)
    expected = requests.outputs[number][-kept:]
    assert_near(layer["output"][:], expected, abs=ROUNDING * np.abs(expected).max())
    assert ("output_lse" in layer) == lse
    if lse:
        assert_near(layer["output_lse"][:], requests.lses[number][-kept:], rel=FLOAT32, abs=FLOAT32)


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("together", [True, False])
def test_paged_prefill(tmp_path, layout, together):
    """Two layers, each with keys of its own, of one plan."""
    recorder, layers = FlightRecorder(tmp_path / "calls"), [Requests(), Requests()]
    workspace = np.zeros(4, np.int32)
    recorder.call(f"{PAGED_PREFILL}.__init__", workspace, layout, owner=1)
    _, indptr, indices, last = layers[0].paged(layout)
    state = rng.bit_generator.state
    for number, requests in enumerate(layers):
        rng.bit_generator.state = state  # the same pages for both layers
        cache, indptr, indices, last = requests.paged(layout, together=together)
        if not number:
            recorder.call(f"{PAGED_PREFILL}.plan", requests.starts(QUERIES), indptr, indices, last, HQ, HKV, D, PAGE,
                          causal=True, owner=1)
            recorder.call("rmsnorm", workspace, workspace, result=workspace)
        recorder.call(f"{PAGED_PREFILL}.run", np.concatenate(requests.q), cache, return_lse=True, owner=1,
                      result=requests.result(lse=True))
    dump = imported(tmp_path / "calls")
    assert dump.attrs["engine"] == "flashinfer 0.7.2" and "flight recorder" in dump.attrs["source"]
    assert dump.attrs.get("kv_cache", "") == "" and dump.attrs["num_layers"] == 2
    assert len(dump["samples"]) == 3
    for number in range(3):
        for layer, requests in enumerate(layers):
            check(dump, f"pass-0-request-{number}", layer, requests, number, lse=True)


def test_the_last_queries_of_each_request(tmp_path):
    recorder, requests = FlightRecorder(tmp_path / "calls"), Requests(queries=(9, 1, 4))
    recorder.call(f"{RAGGED_PREFILL}.__init__", np.zeros(4, np.int32), owner=1)
    recorder.call(f"{RAGGED_PREFILL}.plan", requests.starts(requests.queries), requests.starts(LENGTHS), HQ, HKV, D,
                  causal=True, owner=1)
    recorder.call(f"{RAGGED_PREFILL}.run", np.concatenate(requests.q), np.concatenate(requests.k),
                  np.concatenate(requests.v), owner=1, result=requests.result())
    for words, kept in (((), 4), (("--last", "2"), 2), (("--last", "100"), 100)):
        dump = imported(tmp_path / "calls", *words)
        for number in range(3):
            check(dump, f"pass-0-request-{number}", 0, requests, number, kept)


def record_decode(recorder, requests, owner=2, plan=None, **of_run):
    cache, indptr, indices, last = requests.paged()
    recorder.call(f"{DECODE}.__init__", np.zeros(4, np.int32), owner=owner)
    recorder.call(f"{DECODE}.plan", indptr, indices, last, HQ, HKV, D, PAGE, owner=owner, **(plan or {}))
    return recorder.call(f"{DECODE}.run", np.concatenate(requests.q), cache, owner=owner,
                         **{"result": requests.result(), **of_run})


def test_decoding_with_window_soft_cap_scale_and_sinks(tmp_path):
    sinks = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
    requests = Requests(queries=(1, 1, 1), scale=0.25, softcap=2.0, window=3, sinks=sinks)
    record_decode(FlightRecorder(tmp_path / "calls"), requests, sinks=sinks,
                  plan={"sm_scale": 0.25, "logits_soft_cap": 2.0, "window_left": 2})
    dump = imported(tmp_path / "calls")
    assert (dump.attrs["softmax_scale"], dump.attrs["logit_softcap"]) == (0.25, 2.0)
    layer = dump["samples/pass-0-request-0/layers/0"]
    assert layer.attrs["sliding_window"] == 3 and layer["sinks"][:].tolist() == sinks.tolist()
    for number in range(3):
        check(dump, f"pass-0-request-{number}", 0, requests, number)


def audit(folder, expect):
    return json.loads(attest("audit", folder.parent / "d.h5", "--json", expect=expect).stdout)


@pytest.mark.parametrize("fault, kind", [({}, None), ({"window": None}, "window"), ({"sinks": None}, "sinks"),
                                         ({"softcap": None}, "softcap"), ({"scale": 0.5}, "scale")])
def test_the_audit_of_what_was_recorded(tmp_path, fault, kind):
    """The recorded kernel did otherwise than its plan says."""
    sinks = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
    requests = Requests((12, 9, 8), (1, 1, 1), scale=0.25, softcap=2.0, window=5, sinks=sinks)
    computed = requests.options | fault
    outputs, lses = zip(*(attention(q, k, v, range(len(k) - 1, len(k)), **computed)
                          for q, k, v in zip(requests.q, requests.k, requests.v, strict=True)))
    requests.outputs, requests.lses = outputs, lses
    record_decode(FlightRecorder(tmp_path / "calls"), requests, sinks=sinks, return_lse=True,
                  result=requests.result(lse=True),
                  plan={"sm_scale": 0.25, "logits_soft_cap": 2.0, "window_left": 4})
    imported(tmp_path / "calls").close()
    report = audit(tmp_path / "calls", 3 if fault else 0)
    assert report["engine"] == "flashinfer 0.7.2" and report["layers"][0]["expected"]["lse_difference"] is not None
    for layer in report["layers"] if fault else ():
        assert layer["explanation"]["explained_by"][0]["kind"] == kind, layer["explanation"]


def test_every_plan_is_a_pass(tmp_path):
    recorder = FlightRecorder(tmp_path / "calls")
    steps = [Requests(queries=(1, 1, 1)) for _ in range(3)]
    for requests in steps:
        record_decode(recorder, requests)
    dump = imported(tmp_path / "calls", "--model", "m", "--num-layers", "32")
    assert (dump.attrs["model"], dump.attrs["num_layers"], len(dump["samples"])) == ("m", 32, 9)
    for step, requests in enumerate(steps):
        check(dump, f"pass-{step}-request-1", 0, requests, 1)


def test_codes_of_8_bits_become_what_attention_multiplies(tmp_path):
    """k_scale goes into the softmax scale; v_scale makes values that take float32."""
    codes = rng.integers(0, 120, (2, 12, HKV, D)).astype(np.uint8)
    k, v = TABLES["F8_E4M3"][codes]
    requests = Requests((12,), (1,))
    requests.k, requests.v = [k], [v]
    (requests.outputs, requests.lses) = zip(attention(requests.q[0], k, 0.3 * v, [11], D**-0.5 * 0.5))
    recorder = FlightRecorder(tmp_path / "calls")
    cache = Coded("F8_E4M3", codes.reshape(2, 3, PAGE, HKV, D).swapaxes(0, 1).copy())
    recorder.call(f"{PAGED_PREFILL}.__init__", np.zeros(4, np.int32), owner=1)
    recorder.call(f"{PAGED_PREFILL}.plan", np.array([0, 1]), np.array([0, 3]), np.array([0, 1, 2]), np.array([4]), HQ,
                  HKV, D,
                  PAGE, owner=1)
    recorder.call(f"{PAGED_PREFILL}.run", requests.q[0], cache, k_scale=0.5, v_scale=0.3, owner=1,
                  result=requests.result())
    dump = imported(tmp_path / "calls")
    assert dump.attrs["softmax_scale"] == pytest.approx(D**-0.5 * 0.5)
    check(dump, "pass-0-request-0", 0, requests, 0, scale=np.float32(0.3))
    assert dump["samples/pass-0-request-0/layers/0/v"].dtype == np.float32


def test_bfloat16(tmp_path):
    requests = Requests(queries=(1, 1, 1))
    cut = [bfloat16(np.concatenate(x)) for x in (requests.q, requests.k, requests.v)]
    recorder = FlightRecorder(tmp_path / "calls")
    recorder.call(f"{RAGGED_PREFILL}.__init__", np.zeros(4, np.int32), owner=1)
    recorder.call(f"{RAGGED_PREFILL}.plan", requests.starts(requests.queries), requests.starts(LENGTHS), HQ, HKV, D,
                  owner=1)
    recorder.call(f"{RAGGED_PREFILL}.run", *cut, owner=1, result=bfloat16(np.concatenate(requests.outputs)))
    dump = imported(tmp_path / "calls")
    group = dump["samples/pass-0-request-0/layers/0"]
    bits = group["k"].astype(np.float32)[:].view(np.uint32) >> 16
    np.testing.assert_array_equal(bits, cut[1].bits[:LENGTHS[0]].transpose(1, 0, 2))
    assert group["output"].id.get_type().get_size() == 2


@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_single_requests(tmp_path, layout):
    recorder, prefill, decode = FlightRecorder(tmp_path / "calls"), Requests((9,), (5,)), Requests((6,), (1,))

    def in_layout(x):
        return x if layout == "NHD" else x.swapaxes(0, 1)
    recorder.call("single_prefill_with_kv_cache", prefill.q[0], in_layout(prefill.k[0]), in_layout(prefill.v[0]),
                  causal=True, kv_layout=layout, return_lse=True, result=prefill.result(lse=True))
    recorder.call("single_decode_with_kv_cache", decode.q[0][0], in_layout(decode.k[0]), in_layout(decode.v[0]), layout,
                  result=decode.result()[0])
    dump = imported(tmp_path / "calls")
    check(dump, "pass-0-request-0", 0, prefill, 0, lse=True)
    check(dump, "pass-1-request-0", 0, decode, 0)


def page_table(requests, indptr, indices):
    table = np.full((len(requests.lengths), 5), 7, np.int32)
    for row, begin, end in zip(table, indptr, indptr[1:]):
        row[:end - begin] = indices[begin:end]
    return table


@pytest.mark.parametrize("function", ["trtllm_batch_decode_with_kv_cache", "trtllm_batch_context_with_kv_cache"])
def test_tables_of_pages(tmp_path, function):
    decode = "decode" in function
    requests = Requests(queries=(1, 1, 1) if decode else QUERIES, window=5)
    cache, indptr, indices, _ = requests.paged("HND", together=decode)
    q, workspace, table = np.concatenate(requests.q), np.zeros(4, np.int32), page_table(requests, indptr, indices)
    given = [q, cache, workspace, table, np.array(LENGTHS, np.int32)]
    given += [9, D**-0.5, 1.0] if decode else [4, 9, D**-0.5, 1.0, 3, requests.starts(QUERIES),
                                               requests.starts(LENGTHS)]
    FlightRecorder(tmp_path / "calls").call(function, *given, window_left=4, result=requests.result())
    dump = imported(tmp_path / "calls")
    for number in range(3):
        check(dump, f"pass-0-request-{number}", 0, requests, number)


def test_what_was_imported_is_reported(tmp_path):
    record_decode(FlightRecorder(tmp_path / "calls"), Requests(queries=(1, 1, 1)))
    report = json.loads(run(tmp_path / "calls", "--json").stdout)
    assert {name: report[name] for name in ("samples", "layers", "query_heads", "kv_heads", "head_dim",
                                            "value_dim")} == {
        "samples": 3, "layers": 1, "query_heads": HQ, "kv_heads": HKV, "head_dim": D, "value_dim": D}


def refused(folder, *words):
    done = run(folder, *words)
    assert not (folder.parent / "d.h5").exists()
    return done.returncode, done.stderr.strip()


@pytest.mark.parametrize("change, sentence", [
    ({"plan": {
        "custom_mask": np.ones(4, np.int32)}}, "expected no custom_mask, which a dump cannot describe, found one"),
    ({"plan": {"pos_encoding_mode": "ROPE_LLAMA"}}, "after their rotation, found pos_encoding_mode 'ROPE_LLAMA'"),
    ({"k_scale": np.ones(1, np.float32)}, "expected a number k_scale, found a tensor"),
    ({"plan": {"sm_scale": 1e-39}}, "a softmax scale that is a number that float32 holds, 1.2e-38 to 3.4e+38, found "
                                    "1e-39"),
    ({"plan": {"logits_soft_cap": 1e39}}, "a soft-cap that is a number that float32 holds, 1.2e-38 to 3.4e+38, found "
                                          "1e+39"),
    ({"plan": {
        "logits_soft_cap": -1.0}}, "a soft-cap that is a number that float32 holds, 1.2e-38 to 3.4e+38, found -1"),
    ({"plan": {"sm_scale": 10**400}}, "expected a number sm_scale, found one of more than 64 bits"),
    ({"q_len_per_req": 2}, "expected one query per request, found '2'"),
    ({"finished": False}, "expected finished calls of FlashInfer's attention, found none"),
    ({"graph": True}, "was recorded inside a CUDA graph"),
    ({"result": np.zeros(
        (3, HQ + 1, D), np.float16)}, "query heads that are a multiple of 2, and as many of the output")])
def test_what_a_dump_cannot_describe_is_refused(tmp_path, change, sentence):
    record_decode(FlightRecorder(tmp_path / "calls"), Requests(queries=(1, 1, 1)), **change)
    code, said = refused(tmp_path / "calls")
    assert code == 4 and sentence in said and said.count("\n") == 0, said


def test_attention_that_is_not_causal_is_refused(tmp_path):
    requests = Requests((9,), (5,))
    FlightRecorder(tmp_path / "calls").call("single_prefill_with_kv_cache", requests.q[0], requests.k[0], requests.v[0],
                                            result=requests.result())
    code, said = refused(tmp_path / "calls")
    assert code == 4 and "expected causal attention, found causal False" in said


def test_calls_that_miss_their_plan_are_refused(tmp_path):
    recorder, requests = FlightRecorder(tmp_path / "calls"), Requests(queries=(1, 1, 1))
    recorder.call(f"{DECODE}.run", np.concatenate(requests.q), requests.paged()[0], owner=3, result=requests.result())
    code, said = refused(tmp_path / "calls")
    assert code == 4 \
        and "expected a call of plan before it, found none (FLASHINFER_DUMP_INCLUDE must take plan, too)" in said


@pytest.mark.parametrize("kept", [-1, -2])  # records; the last call has two
def test_a_list_that_was_cut_when_the_program_was_killed(kept, tmp_path):
    recorder, requests = FlightRecorder(tmp_path / "calls"), Requests(queries=(1, 1, 1))
    paths = [str(record_decode(recorder, requests)) for _ in range(2)]
    session = tmp_path / "calls/session.jsonl"
    records = session.read_bytes().splitlines(keepends=True)
    session.write_bytes(b"".join(records[:kept]) + records[kept][:20])
    assert [call.folder for call in read_recording(str(tmp_path / "calls"), ("run",))] == paths


def test_arguments_of_no_signature_are_left_alone(tmp_path):
    path = record_decode(FlightRecorder(tmp_path / "calls"), Requests(queries=(1, 1, 1))) / "metadata.jsonl"
    *before, last = path.read_text().splitlines()
    record = json.loads(last)
    record.setdefault("input_metadata", {})["arg_" + "9" * 5000] = 1  # more digits than Python reads
    path.write_text("\n".join([*before, json.dumps(record)]))
    assert len(read_recording(str(tmp_path / "calls"), ("run",))) == 1


def test_pickled_tensors_are_refused(tmp_path):
    path = record_decode(FlightRecorder(tmp_path / "calls"), Requests(queries=(1, 1, 1)))
    (path / "inputs.safetensors").rename(path / "inputs.pt")
    code, said = refused(tmp_path / "calls")
    assert code == 4 and "record with FLASHINFER_DUMP_SAFETENSORS=1" in said


def test_calls_of_two_processes_are_refused(tmp_path):
    for process in (1, 2):
        record_decode(FlightRecorder(tmp_path / "calls", process), Requests(queries=(1, 1, 1)))
    code, said = refused(tmp_path / "calls")
    assert code == 4 and "expected the calls of one process, found those of 2; with %i in FLASHINFER_DUMP_DIR" in said


def test_pages_that_are_not_there_are_refused(tmp_path):
    recorder, requests = FlightRecorder(tmp_path / "calls"), Requests(queries=(1, 1, 1))
    cache, indptr, indices, last = requests.paged()
    recorder.call(f"{DECODE}.__init__", np.zeros(4, np.int32), owner=1)
    recorder.call(f"{DECODE}.plan", indptr, indices + 9, last, HQ, HKV, D, PAGE, owner=1)
    recorder.call(f"{DECODE}.run", np.concatenate(requests.q), cache, owner=1, result=requests.result())
    code, said = refused(tmp_path / "calls")
    assert code == 4 and "tensor 'arg_2': expected rows" in said and "found 9" in said


@pytest.mark.parametrize("content", ["", "{", "[]", '{"function_name": "X.run", "process_id": "a"}',
                                     '{"function_name": "X.run", "input_metadata": {"arg_0": {"tensor_key": "x"}}}'])
def test_damaged_records_are_refused(tmp_path, content):
    path = record_decode(FlightRecorder(tmp_path / "calls"), Requests(queries=(1, 1, 1)))
    (path / "metadata.jsonl").write_text(content)
    code, said = refused(tmp_path / "calls")
    assert code == 4 and said.startswith("attest: ") and said.count("\n") == 0, said


@pytest.mark.parametrize("option, value", [
    ("--layout", "THD"), ("--q", "q"), ("--scale", "0.5"), ("--softcap", "30"), ("--span", "0:1"), ("--positions", "0"),
    ("--window-layers", "1"), ("--bfloat16-bits", None)])
def test_options_for_arrays_are_refused(tmp_path, option, value):
    record_decode(FlightRecorder(tmp_path / "calls"), Requests(queries=(1, 1, 1)))
    code, said = refused(tmp_path / "calls", option, *filter(None, [value]))
    assert (code, said) == (2, f"attest: {option}: is for arrays in files, what it says the flight recorder's calls "
                               "tell")


def test_fewer_layers_than_were_recorded_are_refused(tmp_path):
    recorder, requests = FlightRecorder(tmp_path / "calls"), Requests(queries=(1, 1, 1))
    record_decode(recorder, requests)
    recorder.call(f"{DECODE}.run", np.concatenate(requests.q), requests.paged()[0], owner=2, result=requests.result())
    code, said = refused(tmp_path / "calls", "--num-layers", "1")
    assert (code, said) == (2, f"attest: {tmp_path / 'calls'}: expected at least 2 layers, found 1 (--num-layers)")


def test_signatures_name_positional_arguments():
    assert parameter_names("(self, q: torch.Tensor, c: Union[A, Tuple[B, C]], *args, out: X = None) -> None") == \
        ["self", "q", "c"]
    assert parameter_names("(a, b: Dict[str, int] = {}, c: Mode = <Mode.X: 1>)") == ["a", "b", "c"]
    assert parameter_names("()") == [] and parameter_names("") == []
