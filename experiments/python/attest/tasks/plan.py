"""The prompts of a command: made ones or those of a file, each when its turn comes."""
import hashlib
from dataclasses import dataclass
from typing import Callable

from ..capture.prompt_files import read_prompts, refuse_same_names
from ..prompts.families import TASKS
from ..prompts.haystack import Haystack
from ..prompts.make_prompts import as_line, make_prompt, prompt_name

DEFAULT_LENGTHS = [4096]


def _hash(text):
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


@dataclass
class PlannedPrompt:
    name: str
    make: Callable  # returns the Prompt


def prompts_of_file(path):
    """Plans the prompts of a file. Returns (list of PlannedPrompt, what decides them)."""
    prompts = read_prompts(path)
    refuse_same_names(prompts)
    content = _hash("".join(as_line(prompt) + "\n" for prompt in prompts))
    return [PlannedPrompt(p.name, lambda p=p: p) for p in prompts], {"file": str(path), "sha256": content}


def made_prompts(options, tokenizer):
    """Plans made prompts. Returns (list of PlannedPrompt, what decides them). The first prompt of each task and length
    is made at once: what cannot be made is said early."""
    haystack = Haystack.read(options.haystack)
    tasks, lengths = options.tasks or list(TASKS), options.context or DEFAULT_LENGTHS
    planned = []
    for task in tasks:
        for length in lengths:
            first = make_prompt(task, length, tokenizer, haystack, options.seed, 0)
            for index in range(options.prompts):
                planned.append(PlannedPrompt(
                    prompt_name(task, length, options.seed, index),
                    lambda key=(task, length, index), first=first:
                    make_prompt(*key[:2], tokenizer, haystack, options.seed, key[2]) if key[2] else first))
    return planned, {"tasks": tasks, "context": lengths, "prompts": options.prompts, "seed": options.seed,
                     "haystack": _hash(haystack.text)}
