"""The attention function that a captured model runs.

Registered with the library's AttentionInterface, it sees q, k and v exactly as attention multiplies them: after RoPE and
q/k-norm, before the softmax scale. It hands them to the attention function that the model would have used, so that the
model computes what it always computes, and writes the chosen layers to the dump. Every captured query is checked at once:
softmax(scale q k) v, learned sinks included, from what the dump records, must be what the model got. So a model whose attention the dump cannot
describe (position biases, another mask) is refused rather than captured wrongly.
"""
import functools
import math
import sys

import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, eager_mask, sdpa_mask
from transformers.modeling_utils import AttentionInterface

from dump_errors import InputError

HOOK = "attest_capture"
QUERY_BLOCK = 1024  # queries per step where a mask would otherwise be T x T
SCORES_AT_ONCE = 2**26  # per step where scores would otherwise be Hq x T x T: 256 MiB of float32


def bits(tensor):
    """Its elements as integers: NumPy has no bfloat16."""
    return tensor.contiguous().cpu().view(torch.int16 if tensor.element_size() == 2 else torch.int32).numpy()


class LazyMask:
    """What a model asked of the library's mask function; its rows are made when a block of queries needs them."""

    def __init__(self, **request):
        self.request = request

    def whole(self, make_mask):
        return make_mask(**self.request)

    def rows(self, make_mask, begin, end):
        offset = self.request["q_offset"] + begin
        return make_mask(**{**self.request, "q_length": end - begin, "q_offset": offset, "allow_is_causal_skip": False})

    def is_plain_causal(self):
        """True where the library makes no mask and sdpa is told is_causal instead."""
        window = self.request.get("local_size")
        return (self.request.get("allow_is_causal_skip", True) and self.request.get("attention_mask") is None
                and (window is None or self.request["kv_length"] < window))


class LayerCall:
    """One call of one layer's attention: query [Hq, new, D] of the tokens start..start+new, key and value
    [Hkv, visible, D or Dv], of which the last `new` belong to the same tokens."""

    def __init__(self, query, key, value, start, scale, softcap, window, sinks=None):
        self.query, self.key, self.value, self.start = query, key, value, start
        self.sinks = sinks  # [Hq] logits that join the softmax and have no value, or None
        self.scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
        self.softcap = None if softcap is None else float(softcap)
        self.window = None if window is None else int(window)
        self.new = query.shape[1]
        self.first_visible = start + self.new - key.shape[1]  # a sliding-window cache forgets the oldest tokens

    @functools.cached_property
    def key32(self):
        return self.key.float()

    def scores(self, rows):
        """[Hkv, G, len(rows), visible] in float32, -inf where not seen, and the largest magnitude, as a reader of the dump
        finds them."""
        num_kv_heads, visible, head_dim = self.key.shape
        query = self.query[:, rows].float().reshape(num_kv_heads, -1, head_dim)
        scores = torch.matmul(query, self.key32.transpose(1, 2)) * self.scale
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        scores = scores.view(num_kv_heads, -1, len(rows), visible)
        token = self.first_visible + torch.arange(visible, device=scores.device)
        position = self.start + torch.tensor(rows, device=scores.device)[:, None]
        seen = token <= position
        if self.window is not None:
            seen &= token > position - self.window
        return scores.masked_fill(~seen, -math.inf), scores.abs().max().item()

    def output(self, rows):
        """[len(rows), Hq, Dv]; the same with |v|, the scale that rounding errors have; and the largest |score|."""
        scores, peak = self.scores(rows)
        probabilities = scores.softmax(-1)
        if self.sinks is not None:
            sinks = self.sinks.float().view(*scores.shape[:2], 1)
            probabilities = probabilities * (scores.logsumexp(-1) - sinks).sigmoid()[..., None]
        value = self.value.float()[:, None]
        exact, magnitude = torch.matmul(probabilities, value), torch.matmul(probabilities, value.abs())
        return exact.flatten(0, 1).transpose(0, 1), magnitude.flatten(0, 1).transpose(0, 1), peak

    def column_sums(self, num_queries):
        """[Hq, visible]: attention mass that each token gets from the first `num_queries` of the call, of the softmax over
        the tokens alone."""
        num_heads, visible = self.query.shape[0], self.key.shape[1]
        sums = torch.zeros(num_heads, visible, device=self.query.device)
        step = max(1, SCORES_AT_ONCE // (num_heads * visible))
        for begin in range(0, num_queries, step):
            rows = list(range(begin, min(begin + step, num_queries)))
            sums += self.scores(rows)[0].softmax(-1).sum(2).flatten(0, 1)
        return sums


class AttentionCapture:
    """Becomes the model's attention function."""

    def __init__(self, model, writer, attention_mass=False):
        self.writer, self.attention_mass = writer, attention_mass
        self.has_sdpa = getattr(model, "_supports_sdpa", False)
        self.geometry = None  # what all layers of a dump share, from the first one captured
        self.sample = None
        AttentionInterface.register(HOOK, self)
        AttentionMaskInterface.register(HOOK, LazyMask)
        try:
            model.set_attn_implementation(HOOK)
        except ValueError as error:
            raise InputError(f"{type(model).__name__}: its attention cannot be hooked ({error})") from error

    def begin_sample(self, sample, num_tokens, prompt_length, positions, layers):
        self.sample, self.num_tokens, self.prompt_length = sample, num_tokens, prompt_length
        self.positions, self.layers = positions, layers
        self.start = 0  # tokens before the current forward pass

    def __call__(self, module, query, key, value, mask, **options):
        with_sdpa = self.has_sdpa and options.get("softcap") is None  # sdpa has no soft-cap
        if with_sdpa:
            attend, make_mask = sdpa_attention_forward, sdpa_mask
        else:
            attend, make_mask = sys.modules[type(module).__module__].eager_attention_forward, eager_mask
        output = self.attend(attend, make_mask, module, query, key, value, mask, options)
        layer = getattr(module, "layer_idx", None)
        if layer in self.layers:
            call = LayerCall(query[0], key[0], value[0], self.start, options.get("scaling"), options.get("softcap"),
                             options.get("sliding_window"), options.get("s_aux"))
            self.record(layer, call, output[0], with_sdpa)
        return output, None

    @staticmethod
    def attend(attend, make_mask, module, query, key, value, mask, options):
        """The model's own attention output [1, new, Hq, Dv]; in blocks of queries where it needs a mask of T x T."""
        if isinstance(mask, LazyMask):
            num_queries, step = query.shape[2], QUERY_BLOCK
            if make_mask is eager_mask:
                step = min(step, max(1, SCORES_AT_ONCE // (query.shape[1] * key.shape[2])))
            if num_queries > step and not (make_mask is sdpa_mask and mask.is_plain_causal()):
                blocks = [(b, min(b + step, num_queries)) for b in range(0, num_queries, step)]
                return torch.cat([attend(module, query[:, :, b:e], key, value, mask.rows(make_mask, b, e), **options)[0]
                                  for b, e in blocks], dim=1)
            mask = mask.whole(make_mask)
        return attend(module, query, key, value, mask, **options)[0]

    def record(self, layer, call, output, with_sdpa):
        self.check_geometry(layer, call)
        group = self.sample["layers"].get(str(layer))
        if group is None:
            group = self.writer.create_layer(self.sample, layer, call.window)
            if call.sinks is not None:
                self.writer.write_array(group, "sinks", call.sinks.float().cpu().numpy(), "<f4")
            for name, shape in (("q", (len(self.positions), *call.query.shape[::2])),
                                ("k", (call.key.shape[0], self.num_tokens, call.key.shape[2])),
                                ("v", (call.value.shape[0], self.num_tokens, call.value.shape[2]))):
                self.writer.create_values(group, name, shape, str(call.query.dtype).removeprefix("torch."))
        self.writer.write_values(group["k"], (0, call.start, 0), bits(call.key[:, -call.new:]))
        self.writer.write_values(group["v"], (0, call.start, 0), bits(call.value[:, -call.new:]))
        wanted = [n for n, p in enumerate(self.positions) if call.start <= p < call.start + call.new]
        if wanted:
            rows = [self.positions[n] - call.start for n in wanted]
            self.check_output(layer, call, rows, output[rows], with_sdpa)
            self.writer.write_values(group["q"], (wanted[0], 0, 0), bits(call.query[:, rows].transpose(0, 1)))
        if self.attention_mass and call.start == 0:
            mass = torch.zeros(call.query.shape[0], self.num_tokens)
            mass[:, :call.new] = call.column_sums(self.prompt_length)
            self.writer.write_array(group, "attention_mass", mass.numpy(), "<f4")

    def check_geometry(self, layer, call):
        dtypes = {call.query.dtype, call.key.dtype, call.value.dtype}
        if len(dtypes) > 1 or not dtypes <= {torch.float16, torch.bfloat16, torch.float32}:
            raise InputError(f"layer {layer}: q, k and v are {', '.join(sorted(map(str, dtypes)))}; a dump holds float16, "
                             "bfloat16 or float32 (--dtype chooses one)")
        geometry = {"num_query_heads": call.query.shape[0], "num_kv_heads": call.key.shape[0],
                    "head_dim": call.key.shape[2], "value_dim": call.value.shape[2], "softmax_scale": call.scale,
                    "logit_softcap": call.softcap}
        if self.geometry is None:
            self.geometry = geometry
        for name, value in geometry.items():
            if value != self.geometry[name]:
                raise InputError(f"layer {layer}: its {name} is {value}, that of the layers before {self.geometry[name]}, "
                                 "and a dump holds layers of one kind: choose them with --layers")

    @staticmethod
    def check_output(layer, call, rows, output, with_sdpa):
        exact, magnitude, peak = call.output(rows)
        error = (output.float() - exact).norm(dim=-1)
        # Probabilities and outputs are rounded to the element type; an eager function rounds the scores too, by an amount
        # that grows with them.
        rounding = torch.finfo(output.dtype).eps * (1 if with_sdpa else 1 + peak)
        worst = (error / magnitude.norm(dim=-1).clamp_min(1e-30)).max().item()
        if not worst <= 1e-3 + 4 * rounding:  # NaN is refused too
            raise InputError(f"layer {layer}: its attention is not the softmax(scale q k) v that a dump describes (relative "
                             f"error {worst:.2g}); it may have a bias or a mask of its own")
