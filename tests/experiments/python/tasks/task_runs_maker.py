"""Helpers for the tests of attest.tasks: a tiny random model, prompts that it answers right, and the command as
experiments/commands/tasks.cpp calls it."""
import json
import os
import pathlib

import pytest

from attest_program import ATTEST

torch = pytest.importorskip("torch", reason="torch is not installed (cmake/setup.sh --torch)")
LIBRARY = pathlib.Path(ATTEST).parent / "libattest_torch_ops.so"
if not LIBRARY.exists():
    pytest.skip("this build has no operator library", allow_module_level=True)
os.environ["ATTEST_TORCH_OPS"] = str(LIBRARY)
from capture_models import FAMILIES, make_model, token_ids
from attest.tasks import __main__ as run_tasks
import transformers

END, LINE_BREAK, ANSWER = 257, 10, 4
SELECTORS = [
    {"label": "exact", "selector": "exact", "text": "exact", "options": "{}", "setting_kind": "none",
     "settings": [[0, False, ""]]},
    {"label": "recent", "selector": "streaming_llm", "text": "streaming_llm", "options": "{}",
     "setting_kind": "budget", "settings": [[8, False, "8"], [25, True, "25%"], [100, True, "100%"]]},
]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    return str(make_model(tmp_path_factory.mktemp("llama"), FAMILIES["llama"]()))


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()


def greedy(model, ids, count):
    """The next tokens by plain forward passes of all tokens, without a cache."""
    ids = list(ids)
    for _ in range(count):
        with torch.inference_mode():
            ids.append(int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[-count:]


def answered_prompts(folder, count, length=120):
    """Prompts of token ids, with the model's own reply as the answer: text, on one line."""
    model, prompts, seed = load(folder), [], 0
    while len(prompts) < count:
        ids = token_ids(length + len(prompts), seed)
        seed += 1
        answer = greedy(model, ids, ANSWER)
        if max(answer) < 256 and LINE_BREAK not in answer and bytes(answer).decode(errors="replace").strip():
            prompts.append({"name": f"p{len(prompts)}", "task": "own", "tokens": ids, "answer": answer,
                            "spans": [[3, 9]]})
    return prompts


def write_lines(path, prompts):
    path.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    return str(path)


def request(selectors=SELECTORS):
    return json.dumps({"selectors": selectors, "command": ["attest", "tasks"], "version": "0", "git_commit": "0"})


def tasks(model, output, *options, selectors=SELECTORS):
    return run_tasks.main([f"--request={request(selectors)}", f"--model={model}", f"--output={output}",
                           "--tokenizer=bytes", "--device=cpu", "--threads=1", *map(str, options)])
