"""Writes what the attention of a model in llama.cpp saw of one prompt as a sample of a dump."""
import time

import numpy as np

from ..base.dump_writer import rounded_bits
from ..base.errors import InputError
from ..capture.model import refuse_unknown_tokens
from ..capture.one_kind import refuse_other_kinds
from ..capture.prompt_files import layers_of
from ..capture.prompt_tokens import ByteTokenizer, tokenize
from ..capture.record import choose_queries, report_line, report_of_answer
from .model import LlamaModel, version
from .tokenizer import GgufTokenizer


def type_of_cache(types):
    """The type of a dump: that in which attention reads keys and values. What a quantised cache holds is made of
    float32."""
    kinds = set(types.values())
    return {"f16": "float16", "bf16": "bfloat16"}.get(kinds.pop() if len(kinds) == 1 else None, "float32")


class LlamaSamples:
    """The model with its attention captured, as capture_all takes one."""
    libraries = staticmethod(version)

    def __init__(self, options, prompts):
        self.options = options
        self.model = LlamaModel(options, self._record)
        self.tokenizer = self._tokenizer() if any(prompt.text is not None for prompt in prompts) else None
        self.geometry = self.rotated = self.element_type = None  # of all layers

    def _tokenizer(self):
        if self.options.tokenizer == "bytes":
            first = self.model.api.llama_vocab_bos(self.model.vocabulary)
            return ByteTokenizer(first if first >= 0 else None)
        return GgufTokenizer(self.model)

    def write(self, prompt, writer):
        """Returns a line of report."""
        options, model = self.options, self.model
        tokenized = tokenize(prompt, self.tokenizer, False, options.max_tokens)
        layers = layers_of(prompt, options.layers, model.num_layers)
        ids, positions = choose_queries(options, prompt, tokenized)
        refuse_unknown_tokens(model.api.llama_vocab_n_tokens(model.vocabulary), prompt, ids)
        began, steps = time.monotonic(), options.decode or 0
        self.num_tokens, self.positions, self.writer = len(ids) + steps, np.array(positions), writer
        self.sample = writer.create_sample(prompt.name, prompt.task, self.num_tokens, positions, tokenized.spans,
                                           tokenized.span_labels, len(tokenized.ids), prompt.document)
        self.groups, self.seen, self.windows = {}, {}, {}
        model.begin(self.num_tokens)
        predicted = model.run(ids, 0, layers, options.answer or 1)
        last = predicted[-1]
        for _ in range(steps):
            ids = [*ids, last]
            (last,) = model.run(ids[-1:], len(ids) - 1, layers, 1)
        writer.write_array(self.sample, "tokens", ids, "<i4")
        self._end(prompt, layers)
        line = report_line(prompt, self.num_tokens, layers, set(self.seen), positions)
        if options.answer:
            line += report_of_answer(tokenized.answer[:options.answer], predicted)
        return f"{line}, {time.monotonic() - began:.1f} s"

    def write_header(self, writer, source, created):
        """Attributes of the root; the source says how the cache was stored."""
        options = self.options
        writer.write_header(model=options.model_name or self.model.name(), num_layers=self.model.num_layers,
                            **self.geometry, source=f"{source}: KV cache K {options.cache_type_k}, V "
                            f"{options.cache_type_v}, flash attention {options.flash_attn}; captured through the "
                            "evaluation callback", created=created, engine=f"llama.cpp of {version()}",
                            kv_cache=self._kv_cache())

    def _kv_cache(self):
        """As options of the selector kv_cache. Its rotation is that of llama.cpp, which an environment variable turns
        off."""
        kinds = {"k": self.options.cache_type_k, "v": self.options.cache_type_v}
        coded = {which: kind for which, kind in kinds.items() if "_" in kind}
        if not coded:
            return ""
        width = {"k": self.geometry["head_dim"], "v": self.geometry["value_dim"]}
        plain = [which for which in coded if width[which] % 64 == 0 and which not in self.rotated]
        return ",".join([f"{which}={kind}" for which, kind in coded.items()] + (["rotate=none"] if plain else []))

    def _end(self, prompt, layers):
        if not self.seen:
            raise InputError(f"{prompt.where}: none of the chosen layers has attention with a KV cache")
        for layer, count in self.seen.items():
            if count != self.num_tokens:
                raise InputError(f"layer {layer}: its attention saw {count} tokens, expected {self.num_tokens}")
            if self.windows[layer]:
                with self.writer.writing():
                    self.groups[layer].attrs["sliding_window"] = self.windows[layer]

    def _record(self, this):
        """A Pass of a chosen layer."""
        start, count = self.seen.get(this.layer, 0), len(this.cells)
        if not np.array_equal(this.cells, np.arange(start, start + count)):
            raise InputError(f"layer {this.layer}: its tokens do not lie one behind the other in the cache")
        if this.k.shape[1] != this.v.shape[1]:
            raise InputError(f"layer {this.layer}: has {this.k.shape[1]} heads of keys and {this.v.shape[1]} of values")
        self._check_geometry(this)
        rows = np.flatnonzero((self.positions >= start) & (self.positions < start + count))
        chosen = self.positions[rows] - start
        if start == 0:
            self._create(this)
        group, write = self.groups[this.layer], self.writer.write_values
        write(group["k"], (0, start, 0), rounded_bits(this.k.transpose(1, 0, 2), self.element_type))
        write(group["v"], (0, start, 0), rounded_bits(this.v.transpose(1, 0, 2), self.element_type))
        if len(rows):
            write(group["q"], (rows[0], 0, 0), rounded_bits(this.q[chosen], self.element_type))
            write(group["output"], (rows[0], 0, 0), rounded_bits(this.output[chosen], "float32"))
        self._check_mask(this, start)
        self.seen[this.layer] = start + count

    def _create(self, this):
        layer = self.groups[this.layer] = self.writer.create_layer(self.sample, this.layer)
        self.windows[this.layer] = None
        if this.sinks is not None:
            self.writer.write_array(layer, "sinks", this.sinks, "<f4")
        rows, tokens = len(self.positions), self.num_tokens
        for name, shape in (("q", (rows, *this.q.shape[1:])), ("k", (this.k.shape[1], tokens, this.k.shape[2])),
                            ("v", (this.v.shape[1], tokens, this.v.shape[2]))):
            self.writer.create_values(layer, name, shape, self.element_type)
        self.writer.create_values(layer, "output", (rows, *this.output.shape[1:]), "float32")

    def _check_geometry(self, this):
        geometry = {"num_query_heads": this.q.shape[1], "num_kv_heads": this.k.shape[1], "head_dim": this.k.shape[2],
                    "value_dim": this.v.shape[2], "softmax_scale": this.scale, "logit_softcap": this.softcap}
        if self.geometry is None:
            self.geometry, self.rotated, self.element_type = geometry, this.rotated, type_of_cache(this.types)
        refuse_other_kinds(f"layer {this.layer}", geometry, self.geometry, "layers", ": choose them with --layers")

    def _check_mask(self, this, start):
        """A dump describes causal masks, with a sliding window or without. Rows come in the order of their positions,
        so that a window first hides token 0 alone."""
        for row, mask in enumerate(this.mask):
            position, visible = start + row, np.flatnonzero(mask == 0)
            hidden, window = position + 1 - len(visible), self.windows[this.layer]
            whole = np.isneginf(mask[mask != 0]).all() and np.array_equal(visible, np.arange(hidden, position + 1))
            if whole and hidden == 1 and window is None:
                window = self.windows[this.layer] = position
            if not whole or hidden != max(0, position + 1 - (window or position + 1)):
                raise InputError(f"layer {this.layer}: its mask for the query at position {position} is not a causal "
                                 "one, with or without a sliding window")
