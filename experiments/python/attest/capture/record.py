"""Writes what the attention of one prompt saw as a sample of a dump."""
import re
import shlex
import time

from ..base.errors import InputError
from ..base.stored_text import storable
from .model import length_warning, model_name, refuse_unknown_tokens, rope_parameters, vocabulary_of
from .prompt_files import layers_of


def choose_queries(options, prompt, tokenized):
    """Token ids for the first forward pass, and the positions of the queries to write."""
    ids, length = tokenized.ids, len(tokenized.ids)
    if options.decode:
        if length < (options.last or 0):
            raise InputError(f"{prompt.where}: --last {options.last} of a prompt of {length} tokens")
        return ids, list(range(length - (options.last or 0), length + options.decode))
    if options.answer:
        if len(tokenized.answer) < options.answer:
            raise InputError(f"{prompt.where}: --answer {options.answer} needs an \"answer\" of as many tokens, found "
                             f"{len(tokenized.answer)}")
        return ids + tokenized.answer[:options.answer - 1], list(range(length - 1, length - 1 + options.answer))
    if options.last:
        if length < options.last:
            raise InputError(f"{prompt.where}: --last {options.last} of a prompt of {length} tokens")
        return ids, list(range(length - options.last, length))
    positions = sorted({p + length if p < 0 else p for p in options.positions})
    if positions[0] < 0 or positions[-1] >= length:
        raise InputError(f"{prompt.where}: --positions reaches outside of the prompt's {length} tokens")
    return ids, positions


def capture_prompt(options, model, config, capture, writer, prompt, tokenized, cache=None):
    """Runs the model on one prompt and writes its sample. Returns a line of report about it. Of `options` it takes
    layers, those that choose the queries, head_weights, and output_gradients with them. `cache`: as in run_model."""
    from .run_model import run_model

    num_layers = config.num_hidden_layers
    layers = layers_of(prompt, options.layers, num_layers)
    ids, positions = choose_queries(options, prompt, tokenized)
    num_tokens = len(ids) + (options.decode or 0)
    # The last token of the answer is not fed, but --head-weights takes its logits.
    refuse_unknown_tokens(vocabulary_of(model), prompt, ids + tokenized.answer[:options.answer or 0])
    began = time.monotonic()
    sample = writer.create_sample(prompt.name, prompt.task, num_tokens, positions, tokenized.spans,
                                  tokenized.span_labels, len(tokenized.ids), prompt.document)
    capture.begin_sample(sample, num_tokens, len(tokenized.ids), positions, layers)
    ids, predicted = run_model(model, capture, ids, options.decode or 0, options.answer or 1, cache)
    writer.write_array(sample, "tokens", ids, "<i4")
    if options.head_weights:
        from .head_weights import write_head_weights

        known = tokenized.answer[:options.answer] if options.answer else \
            ids[positions[0] + 1:] if options.decode else []
        write_head_weights(options, model, capture, writer, sample, ids, positions, known)

    line = report_line(prompt, num_tokens, layers, set(capture.captured), positions)
    if options.answer:
        line += report_of_answer(tokenized.answer[:options.answer], predicted)
    return f"{line}{length_warning(config, num_tokens)}, {time.monotonic() - began:.1f} s"


def report_line(prompt, num_tokens, layers, captured, positions):
    """What was captured of a prompt. `layers` were chosen, `captured` have attention that a dump can describe."""
    line = (f"{prompt.name}: {num_tokens} tokens, {len(captured)} layer{'s' if len(captured) != 1 else ''}, queries "
            f"{positions[0]}..{positions[-1]}")
    if captured != layers:
        line += f", left out, no softmax attention: layers {', '.join(map(str, sorted(layers - captured)))}"
    return line


def report_of_answer(answer, predicted):
    """Part of a line of progress."""
    right = sum(p == a for p, a in zip(predicted, answer))
    return f", {right} of {len(answer)} answer tokens predicted right"


def write_header(writer, options, model, config, capture, source, created):
    """The root's attributes, of the model and of what was captured."""
    writer.write_header(model=model_name(options), num_layers=config.num_hidden_layers, **capture.geometry,
                        rope=rope_parameters(model, config), source=source, created=created,
                        engine=engine() if capture.attention_output else None)


def engine():
    """What computes the output that a dump records."""
    import transformers

    return f"transformers {transformers.__version__}"


def provenance(program, arguments, libraries=None):
    """The command line for the dump's `source` attribute. Paths are cut to their last part. `libraries`: what ran the
    model, with versions; by default transformers and torch."""
    if libraries is None:
        import torch
        import transformers

        libraries = f"transformers {transformers.__version__}, torch {torch.__version__}"
    names = [re.sub(r"(?:^|(?<==))[~.]*/(?:.*/)?", "", argument.rstrip("/")) for argument in arguments]
    return storable(f"{program} {shlex.join(names)} ({libraries})")
