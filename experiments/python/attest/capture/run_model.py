"""Runs a model on the tokens of a prompt, and its decode steps."""
import contextlib
import inspect

import torch

from ..base.errors import AttestError, InputError, OutputError, first_line


def run_model(model, capture, ids, decode_steps, num_predictions, cache=None):
    """Feeds the tokens, then decodes. Returns all tokens, and the predictions after each of the last `num_predictions`
    tokens fed. A `cache` that is given holds their keys and values afterwards."""
    ids = list(ids)
    # Use a cache only for decoding: it grows with the number of layers.
    options = {"use_cache": decode_steps > 0 or cache is not None}
    if cache is not None:
        options["past_key_values"] = cache
    with running(model, len(ids), "with its attention captured"), torch.inference_mode(), \
            _position_check(model, capture):
        step = model(input_ids=torch.tensor([ids], device=model.device), **options,
                     **accepted_options(model, logits_to_keep=num_predictions))
        predicted = step.logits[0, -num_predictions:].argmax(-1).tolist()
        if not capture.captured:
            raise InputError(f"{model.name_or_path}: has no attention to capture: none of the chosen layers calls "
                             "the library's attention interface")
        if decode_steps and getattr(step, "past_key_values", None) is None:
            raise InputError(f"{model.name_or_path}: keeps no key/value cache, without which --decode cannot go on")
        for _ in range(decode_steps):
            capture.start = len(ids)
            ids.append(int(step.logits[0, -1].argmax()))
            step = model(input_ids=torch.tensor([ids[-1:]], device=model.device),
                         past_key_values=step.past_key_values, use_cache=True, **places(model, capture.start, 1))
    return ids, predicted


def accepted_options(model, **options):
    """Those of the options that the model's forward has."""
    accepted = inspect.signature(model.forward).parameters
    return {name: value for name, value in options.items() if name in accepted}


def places(model, start, count):
    """Options that tell where `count` tokens stand: some models count from 0 in every pass unless told."""
    positions = torch.arange(start, start + count, device=model.device)
    return accepted_options(model, position_ids=positions[None], cache_position=positions)


@contextlib.contextmanager
def running(model, num_tokens, how):
    """Turns what fails in a model's passes into one sentence. `how` it is run: "with its attention captured"."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise OutputError(f"{model.name_or_path}: {num_tokens} tokens and the model do not fit into the memory of "
                          f"{model.device}; shorter prompts take less") from error
    except AttestError:
        raise
    except Exception as error:  # model code that wants a mask as a tensor, or a cache of its own kind
        raise InputError(f"{model.name_or_path}: cannot be run {how} ({type(error).__name__}: "
                         f"{first_line(error)})") from error


@contextlib.contextmanager
def _position_check(model, capture):
    """Refuses a model that rotates a decoded token for another position than the one behind the tokens before it. Its q
    and k would agree with its output, but not with those of the same text read at once."""
    first = {}  # rotary module -> where it puts the first token

    def check(module, arguments, named):
        positions = named.get("position_ids", arguments[1] if len(arguments) > 1 else None)
        if not isinstance(positions, torch.Tensor):
            return
        found = int(positions.min())
        expected = first.setdefault(module, found) + capture.start
        if found != expected:
            raise InputError(f"{model.name_or_path}: puts the decoded token {capture.start} at position {found}, "
                             f"expected {expected}; --answer needs no decode steps")

    handles = [module.register_forward_pre_hook(check, with_kwargs=True) for module in model.modules()
               if type(module).__name__.endswith("RotaryEmbedding")]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
