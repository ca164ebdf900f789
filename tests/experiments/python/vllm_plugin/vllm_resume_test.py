"""attest-vllm: what decides whether --resume goes on."""
import types

from attest.vllm_plugin.__main__ import identity
from attest.vllm_plugin.options import parse


def found(*options):
    request = types.SimpleNamespace(ids=[1, 2], arguments={"attest_name": "prompt-0"})
    return identity(parse(["model", "p.jsonl", "-o", "d.h5", *options]), [request])


def test_another_revision_or_engine_is_another_dump():
    assert found() == found("--force") == found("--model-name", "other")
    assert found("--revision", "abc") != found() and found("--", "--kv-cache-dtype", "fp8") != found()
