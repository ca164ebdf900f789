"""`attest bench model` behind its options, on the CPU with a stand-in for FFD's operators: record, table, refusals."""

import json
import statistics

import pytest
from near import CLOSE
from torch_or_skip import torch, transformers  # before what needs them

import standin
from attest.bench_model import __main__ as command
from attest.bench_model import caches, points
from attest.bench_model.model import load_decoder

LAYERS, KV_HEADS, HEADS, DIM = 2, 2, 4, 16
SHAPE = dict(
    vocab_size=200,
    hidden_size=64,
    intermediate_size=100,
    num_hidden_layers=LAYERS,
    num_attention_heads=HEADS,
    num_key_value_heads=KV_HEADS,
    head_dim=DIM,
)
EXACT = 1e-12


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    transformers.AutoConfig.for_model("llama", **SHAPE).save_pretrained(folder)
    return folder / "config.json"


def request_of(config, **options):
    return {
        "context": [512, 1000],
        "batch": [1, 2],
        "keep": [0.3, 1.0],
        "delta": [],
        "element_type": "",
        "repeats": 6,
        "device": "cpu",
        "device_memory": {"share": 0.8, "bytes": 0},
        "seed": 4,
        "json": False,
        "quiet": True,
        "force": False,
        "command": ["attest", "bench", "model"],
        "version": "0.1.0",
        "git_commit": "abc",
        "model": str(config),
        "output": "",
        "dump": "",
        **options,
    }


@pytest.fixture
def on_the_cpu(monkeypatch):
    monkeypatch.setattr(command, "prepared_device", lambda request: torch.device("cpu"))
    monkeypatch.setattr(command, "free_bytes", lambda device, limit: limit["bytes"] or 1e12)
    monkeypatch.setattr(caches, "Operators", standin.Operators)


def run(request):
    return command.main(json.dumps(request))


def test_the_record_and_the_table(config, on_the_cpu, tmp_path, capsys):
    path = tmp_path / "m.json"
    assert run(request_of(config, output=str(path))) == 0
    printed = capsys.readouterr()
    document = json.loads(path.read_text())
    assert printed.err == "" and document["format"] == "attest-model-bench" and document["format_version"] == 1
    assert document["model"] == {
        "name": "config.json",
        "family": "llama",
        "random_weights": True,
        "layers": LAYERS,
        "hidden": 64,
        "num_query_heads": HEADS,
        "num_kv_heads": KV_HEADS,
        "head_dim": DIM,
        "element_type": "bfloat16",
        "weight_bytes": 2 * (2 * 200 * 64 + 64 + LAYERS * (2 * 64 + 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 100)),
    }
    assert document["left_out"] == [] and document["arguments"] == ["bench", "model"]
    rows = document["measurements"]
    assert [(m["context"], m["batch"], m["method"], m["setting"]["value"]) for m in rows] == [
        (c, b, *of) for c in (512, 1000) for b in (1, 2) for of in (("sdpa_flash", 0), ("ffd", 0.3), ("ffd", 1.0))
    ]
    for m in rows:
        dense = next(
            d for d in rows if d["method"] == "sdpa_flash" and (d["context"], d["batch"]) == (m["context"], m["batch"])
        )
        check_measurement(m, dense)
    lines = printed.out.splitlines()
    assert len([line for line in lines if " ffd " in line]) == 8 and "keep 30 %" in printed.out
    assert any(line.startswith("Checked first: with everything kept, logits differ") for line in lines)


def check_measurement(m, dense):
    step, alone = statistics.median(m["milliseconds"]), statistics.median(m["milliseconds_of_attention"])
    assert len(m["milliseconds"]) == len(m["milliseconds_of_attention"]) == 6
    assert m["tokens_per_second"] == pytest.approx(1000 * m["batch"] / step, rel=EXACT)
    assert m["tokens_per_second_low"] == pytest.approx(1000 * m["batch"] / max(m["milliseconds"]), rel=EXACT)
    assert m["tokens_per_second_high"] == pytest.approx(1000 * m["batch"] / min(m["milliseconds"]), rel=EXACT)
    assert m["attention_share"] == pytest.approx(min(1, alone / step), rel=EXACT)
    assert m["over_flash"] == pytest.approx(dense["step_milliseconds"] / step, rel=EXACT)
    share = dense["attention_share"]
    speed_up = statistics.median(dense["milliseconds_of_attention"]) / alone
    assert m["limit_flash"] == pytest.approx(1 / (1 - share + share / speed_up), rel=CLOSE)
    assert m["over_cudnn"] is None and m["limit_cudnn"] is None
    assert m["check"]["logits_difference"] <= m["check"]["tolerance"] == 0.03 < m["check"]["without_attention"] / 3
    if m["method"] == "ffd":
        # Few blocks of few heads, on other tokens than those of the calibration.
        assert m["kept"] == pytest.approx(m["setting"]["value"], abs=0.2)
    else:
        assert m["kept"] == 1 and m["cache_bytes"] == m["batch"] * m["context"] * 2 * KV_HEADS * DIM * 2 * LAYERS


def test_what_keeps_everything_keeps_everything(config, on_the_cpu, tmp_path):
    path = tmp_path / "m.json"
    assert run(request_of(config, context=[1000], batch=[3], keep=[1.0], output=str(path))) == 0
    assert json.loads(path.read_text())["measurements"][-1]["kept"] == 1


class Wrong(standin.Operators):
    """Every KV head gets the next one's keys."""

    def cache(self, k, v, heads, most):
        return super().cache(k.roll(1, 1), v, heads, most)


def test_no_time_of_wrong_logits(config, on_the_cpu, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(caches, "Operators", Wrong)
    assert run(request_of(config, output=str(tmp_path / "m.json"))) == 1
    said = capsys.readouterr()
    assert (
        "ffd, context 512, batch 1: with everything kept the logits differ" in said.err
        and "no time is reported" in said.err
    )
    assert said.out == "" and not any(tmp_path.iterdir())


def test_a_model_whose_attention_does_not_show_is_refused(config, on_the_cpu, monkeypatch, capsys):
    monkeypatch.setattr(points, "LEAST_EFFECT", 1e9)
    assert run(request_of(config)) == 1
    assert "the model does not show what its attention computes" in capsys.readouterr().err


def test_what_does_not_fit_is_left_out(config, on_the_cpu, tmp_path, capsys):
    room = points.bytes_needed(load_decoder(request_of(config), torch.device("cpu"))[0], 512, 1)
    path = tmp_path / "m.json"
    assert run(request_of(config, device_memory={"share": 0, "bytes": room}, output=str(path))) == 0
    document = json.loads(path.read_text())
    assert {(m["context"], m["batch"]) for m in document["measurements"]} == {(512, 1)}
    assert [(x["context"], x["batch"]) for x in document["left_out"]] == [(512, 2), (1000, 1), (1000, 2)]
    assert "left out: all, context 1000, batch 1: needs" in capsys.readouterr().out
    assert run(request_of(config, device_memory={"share": 0, "bytes": 1000})) == 5
    assert "nothing could be measured: needs" in capsys.readouterr().err


class Full(standin.Operators):
    """FFD's caches of sequences of 1000 tokens find no memory, in torch's words or in those of the program's own."""

    errors = [torch.OutOfMemoryError("CUDA out of memory."),
              RuntimeError("the GPU is out of memory: 5 MiB more are needed")]

    def cache(self, k, v, heads, most):
        if k.shape[2] == 999:
            raise self.errors[k.shape[0] - 1]
        return super().cache(k, v, heads, most)


def test_dense_numbers_stay_where_ffd_does_not_fit(config, on_the_cpu, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(caches, "Operators", Full)
    path = tmp_path / "m.json"
    assert run(request_of(config, keep=[0.3], output=str(path))) == 0
    document, printed = json.loads(path.read_text()), capsys.readouterr().out
    assert [(m["method"], m["context"], m["batch"]) for m in document["measurements"]] == [
        (method, 512, batch) for batch in (1, 2) for method in ("sdpa_flash", "ffd")
    ] + [("sdpa_flash", 1000, 1), ("sdpa_flash", 1000, 2)]
    reason = "the device's memory does not suffice"
    assert document["left_out"] == [
        {"method": "ffd", "setting": {"kind": "keep", "value": 0.3}, "context": 1000, "batch": batch, "reason": reason}
        for batch in (1, 2)
    ]
    assert f"left out: ffd keep 30 %, context 1000, batch 2: {reason}" in printed
    assert [line.split() for line in printed.splitlines() if "  left out  " in line] == [
        ["1000", str(batch), "ffd", "keep", "30", "%", "left", "out", *"-" * 9] for batch in (1, 2)
    ]


def test_other_errors_of_ffd_are_not_taken_for_a_lack_of_memory(config, on_the_cpu, monkeypatch):
    monkeypatch.setattr(Full, "errors", [RuntimeError("a defect"), None])
    monkeypatch.setattr(caches, "Operators", Full)
    with pytest.raises(RuntimeError, match="a defect"):
        run(request_of(config, context=[1000], batch=[1]))


def test_the_document_alone_is_printed(config, on_the_cpu, capsys):
    assert run(request_of(config, context=[512], batch=[1], keep=[0.5], json=True)) == 0
    assert len(json.loads(capsys.readouterr().out)["measurements"]) == 2


def test_an_output_stays(config, on_the_cpu, tmp_path, capsys):
    (tmp_path / "m.json").write_text("mine")
    assert run(request_of(config, output=str(tmp_path / "m.json"))) == 5
    assert "exists already" in capsys.readouterr().err and (tmp_path / "m.json").read_text() == "mine"


def test_a_checkpoint_is_timed_with_its_weights(config, tmp_path):
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(config)).half()
    model.save_pretrained(tmp_path)
    decoder, _, random = load_decoder(request_of(tmp_path), torch.device("cpu"))
    assert not random and decoder.dtype == torch.float16 and torch.equal(decoder.norm, model.model.norm.weight)
    assert torch.equal(decoder.layers[1].qkv[:64], model.model.layers[1].self_attn.q_proj.weight)


def test_float32_caches_are_refused(config, tmp_path, on_the_cpu, capsys):
    transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.from_pretrained(config)
    ).float().save_pretrained(tmp_path)
    assert run(request_of(tmp_path)) == 2
    said = capsys.readouterr().err
    assert "the checkpoint is float32, and its cache would be: expected --dtype float16 or bfloat16" in said


def test_a_checkpoint_that_does_not_fit_is_a_limit_of_the_machine(config, tmp_path, on_the_cpu, capsys, monkeypatch):
    def out_of_memory(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.\nSee the documentation")

    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(config)).half()
    model.save_pretrained(tmp_path)
    monkeypatch.setattr(transformers.LlamaForCausalLM, "to", out_of_memory)
    assert run(request_of(tmp_path)) == 5
    sentence = "does not fit into the memory of the GPU (CUDA out of memory.)"
    assert capsys.readouterr().err.splitlines()[-1] == f"attest: {tmp_path}: {sentence}"
