"""The model `attest` of the lm-evaluation-harness, on local tasks and tiny random models: exact is the harness's own
answer, other selectors are what attention through them gives token by token."""
import json
import os
import pathlib
import sys

import pytest

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
from attest_program import ATTEST

torch = pytest.importorskip("torch", reason="torch is not installed (cmake/setup.sh --torch)")
transformers = pytest.importorskip("transformers", reason="transformers is not installed (cmake/setup.sh --torch)")
pytest.importorskip("lm_eval", reason="lm_eval is not installed (cmake/setup.sh --lm-eval)")
from capture_models import FAMILIES, HYBRIDS, make_model

LIBRARY = pathlib.Path(ATTEST).parent / "libattest_torch_ops.so"
if not LIBRARY.exists():
    pytest.skip("this build has no operator library", allow_module_level=True)
os.environ["ATTEST_TORCH_OPS"] = str(LIBRARY)
import lm_eval
from attest.lm_eval import __main__ as lm_eval_attest
from lm_eval.tasks import TaskManager
from attest.base.errors import InputError
from attest.capture.prompt_tokens import ByteTokenizer
from attest.lm_eval.byte_tokenizer import byte_tokenizer
from attest.lm_eval.model import SelectorLM

TOLERANCE = 2e-3  # of log-likelihoods of up to some hundred: float32 sums in another order, through four random layers
DOCS = [{"text": f"The key {key} has the value {value} in this text that goes on for a while.\nValue of {key}?",
         "choices": [f"{n}{value}" for n in ("", "7", "no ")], "label": n % 3, "answer": str(value)}
        for n, (key, value) in enumerate([("ab", 17), ("cd", 2311), ("éf", 5)])]
TASKS = {
    "choice": "output_type: multiple_choice\ndoc_to_choice: \"{{choices}}\"\ndoc_to_target: label\n"
              "metric_list: [{metric: acc}]",
    "reply": "output_type: generate_until\ndoc_to_target: \"{{answer}}\"\n"
             "generation_kwargs: {until: [\"\\n\"], max_gen_toks: 9}\nmetric_list: [{metric: exact_match}]",
    "rolling": "output_type: loglikelihood_rolling\ndoc_to_target: \"{{text}}\"\n"
               "metric_list: [{metric: byte_perplexity}]",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models with a tokenizer of bytes, and the tasks."""
    folder = tmp_path_factory.mktemp("lm_eval")
    os.environ["HF_HOME"] = os.environ["HF_DATASETS_CACHE"] = str(folder / "cache")
    for family in ("llama", "deepseek_v3", "lfm2"):
        config = (FAMILIES | HYBRIDS)[family]()
        make_model(folder / family, config)
        byte_tokenizer(config).save_pretrained(folder / family)
    (folder / "docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in DOCS))
    for name, text in TASKS.items():
        doc_to_text = '""' if name == "rolling" else '"{{text}}"'
        (folder / f"{name}.yaml").write_text(
            f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {folder}/docs.jsonl}}\n"
            f"test_split: train\ndoc_to_text: {doc_to_text}\n{text}\n")
    return folder


def evaluate(folder, model, family="llama", **arguments):
    """Answers of each request, by task."""
    arguments = {"pretrained": str(folder / family), "dtype": "float32", "device": "cpu", **arguments}
    model = SelectorLM(**arguments) if model == "attest" else lm_eval.api.registry.get_model(model)(**arguments)
    results = lm_eval.simple_evaluate(
        model=model, tasks=list(TASKS), task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        bootstrap_iters=0, log_samples=True)
    answers = {task: [sample["resps"] for sample in samples] for task, samples in results["samples"].items()}
    return answers, results, model


def scores(answers):
    return torch.tensor([float(answer[0][0] if isinstance(answer[0], (tuple, list)) else answer[0])
                         for task in ("choice", "rolling") for doc in answers[task] for answer in doc])


@pytest.mark.parametrize("family", ["llama", "deepseek_v3", "lfm2"])
def test_exact_is_the_harness(folder, family):
    dense, _, _ = evaluate(folder, "hf", family)
    exact, results, model = evaluate(folder, "attest", family)
    assert exact["reply"] == dense["reply"]
    assert (scores(exact) - scores(dense)).abs().max() < TOLERANCE
    assert [[bool(c[0][1]) for c in doc] for doc in exact["choice"]] == \
        [[bool(c[0][1]) for c in doc] for doc in dense["choice"]]
    assert results["config"]["attest_selector"] == "exact" and results["config"]["attest_kept_ratio"] == 1


def by_hand(model, context, continuation):
    """Log-likelihood of token ids: the context but for its last token dense, then one token at a time."""
    attention, total = model.attention, 0.0
    cache = attention.new_cache()
    with torch.inference_mode():
        attention.selecting = False
        if context[:-1]:
            model.model(input_ids=torch.tensor([context[:-1]]), past_key_values=cache)
        attention.selecting = True
        for token, following in zip(context[-1:] + continuation[:-1], continuation):
            logits = model.model(input_ids=torch.tensor([[token]]), past_key_values=cache).logits[0, -1]
            total += float(logits.log_softmax(0)[following])
    return total


@pytest.mark.parametrize("family", ["llama", "deepseek_v3"])
def test_rows_from_the_last_token_of_the_context_on_go_through_the_selector(folder, family):
    dense = scores(evaluate(folder, "attest", family)[0])
    answers, results, model = evaluate(folder, "attest", family, selector="streaming_llm:sink=2", budget=8)
    found = scores(answers)
    assert (found - dense).abs().max() > 0.1
    assert results["config"]["attest_kept_ratio"] < 0.5 and results["config"]["attest_setting"] == 8
    bytes_of = ByteTokenizer(256)
    expected = [by_hand(model, bytes_of(doc["text"])["input_ids"], bytes_of(" " + choice, False)["input_ids"])
                for doc in DOCS for choice in doc["choices"]]
    # The harness puts its prefix before the first token that the tokenizer adds.
    expected += [by_hand(model, [256], bytes_of(doc["text"])["input_ids"]) for doc in DOCS]
    assert (found - torch.tensor(expected)).abs().max() < TOLERANCE

    for doc, reply in zip(DOCS, answers["reply"], strict=True):
        tokens, text = bytes_of(doc["text"])["input_ids"], []
        cache = model.attention.new_cache()
        with torch.inference_mode():
            model.attention.selecting = False
            model.model(input_ids=torch.tensor([tokens[:-1]]), past_key_values=cache)
            model.attention.selecting = True
            while len(text) < 9 and 10 not in text and 257 not in text:
                last = torch.tensor([(tokens + text)[-1:]])
                text.append(int(model.model(input_ids=last, past_key_values=cache).logits[0, -1].argmax()))
        assert reply[0][0] == model.tok_decode(text).split("\n")[0]


def test_a_continuation_longer_than_the_model_reads_is_refused(folder):
    model = SelectorLM(str(folder / "llama"), device="cpu", max_length=8)
    assert len(model._loglikelihood_tokens([(None, [65] * 3, [66] * 8)])) == 1
    with pytest.raises(InputError, match="^a continuation of 9 tokens: expected at most 8, the longest input of the "
                                         "model$"):
        model._loglikelihood_tokens([(None, [65] * 3, [66] * 9)])


def test_bytes_are_the_tokens_of_capture(folder):
    model = SelectorLM(str(folder / "llama"), tokenizer="bytes", dtype="float32", device="cpu")
    for text in ("", "one\ntwo  é\x00\x7f ", "\u20ac" * 3, "a<|b|>"):
        for special in (True, False):
            assert model.tok_encode(text, add_special_tokens=special) == ByteTokenizer(256)(text, special)["input_ids"]
        assert model.tok_decode(model.tok_encode(text)) == text
    assert model.prefix_token_id == 256 and model.eot_token_id == 257
    plain = byte_tokenizer(transformers.LlamaConfig(bos_token_id=None, eos_token_id=None))
    assert plain("ab")["input_ids"] == [97, 98]


@pytest.fixture
def run(folder, monkeypatch):
    """The script, without the index of the harness's own tasks, which takes long to make."""
    of_all = TaskManager.__init__
    monkeypatch.setattr(TaskManager, "__init__", lambda *call, **options: of_all(
        *call, **{**options, "include_defaults": False}))

    def main(*arguments, model_args):
        monkeypatch.setattr(sys, "argv", [
            "attest.lm_eval", "--model", "attest", "--model_args", f"pretrained={folder / 'llama'},{model_args}",
            "--include_path", str(folder), *map(str, arguments)])
        return lm_eval_attest.main()
    return main


def test_the_command_line(run, tmp_path, capsys):
    assert not run("--tasks", "reply,choice", "--output_path", tmp_path,
                   model_args='selector="streaming_llm:sink=2,dense_layers=1",budget=50%,layers=0-2')
    printed = capsys.readouterr().out
    assert "|reply " in printed and "|choice" in printed
    config = json.loads(next(tmp_path.rglob("results_*.json")).read_text())["config"]
    assert config["attest_selector"] == "streaming_llm:sink=2,dense_layers=1" and config["attest_setting"] == 0.5
    assert config["attest_layers"] == [0, 1, 2] and 0.7 < config["attest_kept_ratio"] < 0.8  # 2 of 4 layers keep half


def test_a_machine_without_a_gpu_needs_no_device(run, tmp_path, monkeypatch):
    """The harness takes cuda:0 by default."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert not run("--tasks", "choice", "--output_path", tmp_path, model_args="selector=topdelta,delta=5")
    results, = tmp_path.iterdir()
    assert results.name.endswith("llama"), "delta is no model"


def test_bad_arguments_end_with_one_sentence(run, capsys):
    assert run("--tasks", "choice", model_args="selector=ffd,budget=100") == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == "attest.lm_eval: model_args: selector=ffd takes delta=, found budget=100"


def test_a_settings_file(folder, tmp_path):
    path = tmp_path / "recommendation.json"
    path.write_text(json.dumps({"format": "attest-recommendation", "format_version": 1, "model": "m", "selector": "ffd",
                                "setting": "delta", "default": 1, "layers": {"3": {"kv_heads": {"1": "dense"}}}}))
    for selector, text in (("ffd", "ffd:"), ("ffd:gqa=union", "ffd:gqa=union,")):
        model = SelectorLM(str(folder / "llama"), selector=selector, settings_file=path, device="cpu")
        assert model.attention.selector == f"{text}settings_file={path}" and model.attention.setting == 0


@pytest.mark.parametrize("arguments, sentence", [
    (dict(selector="nosuch"), "unknown selector 'nosuch'"),
    (dict(selector="ffd"), "model_args: selector=ffd takes delta=, found no setting"),
    (dict(selector="quest", delta=5), "model_args: selector=quest takes budget=, found delta=5"),
    (dict(selector="ffd", delta=5, budget=100), "selector=ffd takes delta=, found delta=5, budget=100"),
    (dict(delta=5), "selector=exact has no setting, found delta=5"),
    (dict(selector="quest", budget="25"), None),
    (dict(selector="quest", budget="25%"), None),
    (dict(selector="quest", budget=0.25), "expected budget= a number of tokens, or a share below 100%"),
    (dict(selector="quest", budget="100%"), "or a share below 100%, found budget=100%"),
    (dict(selector="ffd", delta="5%"), "expected delta= a number, found delta=5%"),
    (dict(selector="ffd", delta="inf"), None),
    (dict(layers="2-"), None),
    (dict(layers=[0, 3]), None),
    (dict(layers="2-9"), "model_args: layers: there is no layer 9, the model has 4"),
    (dict(layers="last"), "layers=last: 'last' is not a list of layers such as 0,4,8-11"),
    (dict(batch_size=4), "--batch_size 4: expected 1"),
    (dict(batch_size="auto"), "--batch_size auto: expected 1"),
    (dict(gqa="per_head"), "cannot be loaded by the harness"),  # an option of a selector, cut off by a comma
    (dict(torch_ops="none.so"), "none.so: there is no such operator library"),
])
def test_model_arguments(folder, arguments, sentence):
    arguments = {"pretrained": str(folder / "llama"), "device": "cpu", **arguments}
    if sentence is None:
        SelectorLM(**arguments)
        return
    with pytest.raises(Exception) as raised:
        SelectorLM(**arguments)
    assert sentence in str(raised.value) and "\n" not in str(raised.value) and hasattr(raised.value, "exit_code")
