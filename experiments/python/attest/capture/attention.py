"""The attention function that a model runs while it is captured.

It calls the attention function that the model would have used (model_attention.py) and writes the chosen layers to the
dump. When the last query of a layer has been written, the layer is read back from the dump and checked
(check.py): a model whose attention the dump cannot describe (position biases, another mask) is refused, not
captured wrongly.
"""
import dataclasses

import numpy as np
import torch

from ..base.errors import InputError
from ..base.tensor_bits import bits
from .check import check_layer
from .latent_attention import AbsorbedAttention, Latents, is_latent
from .model_attention import hook, model_attention, window_of
from .one_kind import refuse_other_kinds
from .softmax_attention import SoftmaxAttention


class PlainAttention:
    """What the dump records of one call: query [Hq, rows, D] of the chosen rows, key and value [Hkv, new, D or Dv] of
    the new tokens. A cache may hold fewer of the old ones than the dump."""
    expansion = None

    def __init__(self, query, key, value, rows, new):
        self.query, self.key, self.value = query[:, rows], key[:, -new:], value[:, -new:]


@dataclasses.dataclass
class CapturedLayer:
    """A layer of the current sample."""
    group: object  # in the dump
    num_tokens: int = 0  # written so far
    outputs: list = dataclasses.field(default_factory=list)  # the model's, of the queries written so far


class AttentionCapture:
    """Installs itself as the model's attention function."""

    def __init__(self, model, writer, attention_mass=None, attention_output=False):
        """attention_mass: None, True for all of the prompt's queries, or how many of its last ones. attention_output:
        write what the model's own attention gave."""
        self.writer, self.attention_mass, self.attention_output = writer, attention_mass, attention_output
        self.has_sdpa = getattr(model, "_supports_sdpa", False)
        self.geometry = None  # properties that all layers of a dump share, taken from the first one captured
        hook(model, "attest_capture", self)
        self.latents = Latents(model)
        self.checked_layers, self.checked_lengths = set(), set()  # by head_weights.py

    def begin_sample(self, sample, num_tokens, prompt_length, positions, layers):
        """What the following passes belong to; `positions` are of the queries that are kept."""
        self.sample, self.num_tokens, self.prompt_length = sample, num_tokens, prompt_length
        self.positions, self.layers = positions, layers
        self.captured = {}  # layer -> CapturedLayer
        self.start = 0  # number of tokens before the current forward pass

    def __call__(self, module, query, key, value, attention_mask, **options):
        layer = getattr(module, "layer_idx", None)
        output = model_attention(self.has_sdpa, module, query, key, value, attention_mask, options)
        options["sliding_window"] = window_of(attention_mask, options)
        if layer in self.layers:
            self.record(layer, module, query[0], key[0], value[0], output[0], options)
        self.latents.forget(module)
        return output, None

    def record(self, layer, module, query, key, value, output, options):
        """query [Hq, new, D] of the tokens start..start+new, key and value [Hkv, visible, D or Dv] that end with the
        same tokens, output [new, Hq, Dv]."""
        new = query.shape[1]
        wanted = [n for n, p in enumerate(self.positions) if self.start <= p < self.start + new]
        rows = [self.positions[n] - self.start for n in wanted]
        if is_latent(module):
            latents, expansion = self.latents.take(module, layer)
            recorded = AbsorbedAttention(latents[0], expansion, module, query, key, rows, new)
        else:
            recorded = PlainAttention(query, key, value, rows, new)
        scale, softcap, window = options.get("scaling"), options.get("softcap"), options.get("sliding_window")
        scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
        softcap, window = None if softcap is None else float(softcap), None if window is None else int(window)
        self.check_geometry(layer, recorded, scale, softcap)

        state = self.captured.get(layer)
        if state is None:
            state = self.captured[layer] = self.create_layer(layer, recorded, window, options.get("s_aux"))
        if state.num_tokens != self.start or key.shape[1] > self.start + new:
            raise InputError(f"layer {layer}: its attention runs more than once a token, or has keys of its own, which "
                             "a dump cannot describe")
        self.writer.write_values(state.group["k"], (0, self.start, 0), bits(recorded.key))
        self.writer.write_values(state.group["v"], (0, self.start, 0), bits(recorded.value))
        state.num_tokens += new
        if self.attention_mass and self.start == 0:
            of_all = self.attention_mass is True
            first = 0 if of_all else max(0, self.prompt_length - self.attention_mass)
            call = SoftmaxAttention(query[:, first:], key, value, range(first, new), scale, softcap, window)
            mass = torch.zeros(query.shape[0], self.num_tokens)
            mass[:, :new] = call.column_sums(self.prompt_length - first)
            self.writer.write_array(state.group, "attention_mass", mass.numpy(), "<f4",
                                    **({} if of_all else {"queries": self.prompt_length - first}))
        if wanted:
            self.writer.write_values(state.group["q"], (wanted[0], 0, 0), bits(recorded.query.transpose(0, 1)))
            state.outputs.append(output[rows])
            if self.attention_output:
                self.writer.write_values(state.group["output"], (wanted[0], 0, 0), bits(output[rows]))
            if wanted[-1] == len(self.positions) - 1:
                attention = self.read_back(state.group, query.device, query.dtype, recorded.expansion)
                check_layer(layer, attention, torch.cat(state.outputs))

    def create_layer(self, layer, recorded, window, sinks):
        """The data sets of a layer, empty: keys and values come in parts where the prompt does."""
        group = self.writer.create_layer(self.sample, layer, window)
        if sinks is not None:
            self.writer.write_array(group, "sinks", sinks.float().cpu().numpy(), "<f4")
        for name, values, count in (("q", recorded.query.transpose(0, 1), None), ("k", recorded.key, self.num_tokens),
                                    ("v", recorded.value, self.num_tokens)):
            heads, dim = values.shape[1 if count is None else 0], values.shape[2]
            shape = (len(self.positions), heads, dim) if count is None else (heads, count, dim)
            self.writer.create_values(group, name, shape, str(recorded.query.dtype).removeprefix("torch."))
        if self.attention_output:
            if recorded.expansion is not None:
                raise InputError(f"layer {layer}: its attention is latent, and a dump's output would be of latents, "
                                 "which the model does not compute: --attention-output takes other models")
            shape = (len(self.positions), recorded.query.shape[0], recorded.value.shape[2])
            self.writer.create_values(group, "output", shape, str(recorded.query.dtype).removeprefix("torch."))
        return CapturedLayer(group)

    def read_back(self, group, device, dtype, expansion):
        """The attention that a reader of the dump would compute, of the tokens written so far."""
        q, k, v = (torch.from_numpy(self.writer.read_values(group[name])).view(dtype).to(device) for name in "qkv")
        sinks = torch.from_numpy(group["sinks"][:]).to(device) if "sinks" in group else None
        end = self.positions[-1] + 1
        return SoftmaxAttention(q.transpose(0, 1), k[:, :end], v[:, :end], self.positions,
                                self.geometry["softmax_scale"], self.geometry["logit_softcap"],
                                group.attrs.get("sliding_window"), sinks, expansion)

    def check_geometry(self, layer, recorded, scale, softcap):
        """A dump has one geometry: layers of another are refused, with the advice to choose layers."""
        dtypes = {recorded.query.dtype, recorded.key.dtype, recorded.value.dtype}
        if len(dtypes) > 1 or not dtypes <= {torch.float16, torch.bfloat16, torch.float32}:
            raise InputError(f"layer {layer}: q, k and v are {', '.join(sorted(map(str, dtypes)))}; a dump holds "
                             "float16, bfloat16 or float32 (--dtype chooses one)")
        shared = None if recorded.expansion is None else np.uint8(1)  # the latent is the value, and begins the key
        geometry = {"num_query_heads": recorded.query.shape[0], "num_kv_heads": recorded.key.shape[0],
                    "head_dim": recorded.key.shape[2], "value_dim": recorded.value.shape[2], "values_in_keys": shared,
                    "softmax_scale": scale, "logit_softcap": softcap}
        if self.geometry is None:
            self.geometry = geometry
        refuse_other_kinds(f"layer {layer}", geometry, self.geometry, "layers", ": choose them with --layers")
