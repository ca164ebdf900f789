"""attest bench model without a GPU: what it refuses, in which order, and that it writes nothing."""

import pytest
from attest_program import attest_without_gpu as attest


def refusal(folder, *arguments):
    before = sorted(folder.iterdir())
    done = attest(folder, "bench", "model", *arguments)
    assert done.stdout == "" and done.stderr.startswith("attest: ") and done.stderr.count("\n") == 1, done.stderr
    assert sorted(folder.iterdir()) == before
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", [[], ["--json"], ["--quiet", "-o", "m.json"], ["Qwen/Qwen3-8B", "--batch", "1"]])
def test_it_takes_a_gpu(arguments, tmp_path):
    code, sentence = refusal(tmp_path, *arguments)
    assert code == 5 and "bench model: expected a GPU with CUDA" in sentence and "found " in sentence


def test_the_cpu_cannot_be_chosen(tmp_path):
    code, sentence = refusal(tmp_path, "--device", "cpu")
    assert code == 2 and "--device cpu: 'attest bench model' measures a GPU; expected cuda or auto" in sentence


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--context", "4K,4096"], "--context: 4096 tokens are there twice"),
        (["--context", "128"], "--context: expected at least 256 tokens, found 128"),
        (["--context", "many"], "--context: 'many' is not a number of tokens"),
        (["--batch", "1,8,1"], "--batch: '1' is there twice"),
        (["--batch", "0"], "--batch"),
        (["--keep", "6%,0.06"], "--keep: '0.06' is there twice"),
        (["--keep", "6%,0"], "--keep: expected shares above 0, found 0"),
        (["--dump", "d.h5"], "--dump and --delta belong together"),
        (["--delta", "5"], "--dump and --delta belong together"),
        (["--dump", "d.h5", "--delta", "5,5"], "--delta: '5' is there twice"),
        (["--element-type", "float32"], "float32"),
    ],
)
def test_options_that_do_not_fit(arguments, sentence, tmp_path):
    code, found = refusal(tmp_path, *arguments)
    assert code == 2 and sentence in found


def test_the_help_names_the_defaults(tmp_path):
    text = attest(tmp_path, "bench", "model", "--help").stdout
    for part in ("llama31-8b", "4K..128K", "[1,8,32]", "6%,27%", "{float16,bfloat16}", "--device cuda:1"):
        assert part in text
