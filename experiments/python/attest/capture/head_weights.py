"""What the outputs of the heads mean for the answer: gradients of the margins, --head-weights and --output-gradients.

The margin of a row is the logit of the token that it should give minus the largest other logit. The rows of the queries
run on the fixed keys and values of the tokens before them, in float32, with a zero added to the output of each layer's
attention: the gradient of that zero is the gradient of the output. Three checks refuse what would be wrong without a
word: a margin must not depend on later rows (an attention without its mask does); of the first prompt of each length,
rounded to a power of two, the rows must give the logits of a run of the whole text; and in the first prompt that has a
layer its derivatives along two directions must be those of finite differences.
"""
import contextlib
import copy

import numpy as np
import torch

from ..base.errors import InputError
from .latent_attention import is_latent
from .model_attention import hook, model_attention
from .run_model import accepted_options, places, running

SCALES = (1.0, 0.75, 0.5, 0.25)  # of all outputs of the rows, for --output-gradients
LOGIT_TOLERANCE = 1e-3  # of the largest logit: the order of sums in float32
DIFFERENCE_TOLERANCE = 0.03  # of the gradient's norm
# Of the norm of a layer's outputs. Large steps leave the straight line, small ones drown in rounding: one must agree.
STEPS = (1e-2, 3e-3, 3e-2, 1e-3, 1e-1)


@contextlib.contextmanager
def in_float32(model):
    """The model with its weights in float32, which holds them exactly, and without gradients of them."""
    tensors = [*model.parameters(), *model.buffers()]
    kept = [(t, t.data, t.requires_grad) for t in tensors]
    try:
        for t in tensors:
            t.requires_grad_(False)
            if t.is_floating_point():
                t.data = t.data.float()
        yield
    finally:
        for t, data, requires_grad in kept:
            t.data = data
            t.requires_grad_(requires_grad)


class Rows:
    """The rows of the queries on the fixed prefix. `ids`: all tokens, up to that of the last row."""

    def __init__(self, model, latents, ids, num_rows):
        self.model, self.latents, self.ids, self.num_rows = model, latents, ids, num_rows
        self.first = len(ids) - num_rows
        self.has_sdpa = getattr(model, "_supports_sdpa", False)
        self.begin()

    def begin(self, scale=1.0, shifts=None):
        """Prepares a pass over the rows of the answer, which scales all outputs by `scale`, and adds shifts[layer] to
        those of a layer."""
        self.scale, self.shifts, self.zeros, self.outputs, self.expansions = scale, shifts or {}, {}, {}, {}
        self.active = False

    def __call__(self, module, query, key, value, attention_mask, **options):
        output = model_attention(self.has_sdpa, module, query, key, value, attention_mask, options)
        layer = getattr(module, "layer_idx", None)
        if self.active:
            if is_latent(module):
                self.expansions[layer] = self.latents.take(module, layer)[1][..., module.qk_nope_head_dim:]
            self.outputs[layer] = output.detach()
            output = output * self.scale
            if torch.is_grad_enabled():
                self.zeros[layer] = torch.zeros_like(output, requires_grad=True)
                output = output + self.zeros[layer]
            if layer in self.shifts:
                output = output + self.shifts[layer]
        self.latents.forget(module)
        return output, None

    def read_whole(self):
        """The rows' logits in a run of the whole text."""
        with torch.no_grad():
            whole = self.model(input_ids=self.tensor(self.ids), use_cache=False,
                               **accepted_options(self.model, logits_to_keep=self.num_rows))
        return whole.logits[0, -self.num_rows:].float()

    def read_prefix(self):
        """Keeps the cache of the tokens before the rows."""
        with torch.no_grad():
            self.cache = None
            if self.first:
                self.cache = getattr(self.model(input_ids=self.tensor(self.ids[:self.first]), use_cache=True,
                                                **accepted_options(self.model, logits_to_keep=1)),
                                     "past_key_values", None)
                if not hasattr(self.cache, "layers"):
                    raise InputError(f"{self.model.name_or_path}: keeps no key/value cache of layers, which "
                                     "--head-weights needs")

    def logits(self, **how):
        """[N, vocabulary] of the rows. `how`: scale of all outputs; shifts, layer -> what is added to its output."""
        self.begin(**how)
        cache = copy.copy(self.cache)
        if cache is not None:  # a pass replaces the tensors of a layer, and leaves the old ones as they are
            cache.layers = [copy.copy(layer) for layer in cache.layers]
        self.active = True
        try:
            step = self.model(input_ids=self.tensor(self.ids[self.first:]), past_key_values=cache,
                              use_cache=cache is not None, **places(self.model, self.first, self.num_rows))
        finally:
            self.active = False
        return step.logits[0].float()

    def tensor(self, ids):
        """[1, T] on the model's device."""
        return torch.tensor([ids], device=self.model.device)


def margins(logits, answer):
    """[N] margins, and the largest other token of each row."""
    own = logits.gather(1, answer[:, None])[:, 0]
    others = logits.scatter(1, answer[:, None], -torch.inf)
    best = others.argmax(1)
    return own - logits.gather(1, best[:, None])[:, 0], best


def gradients_of(values, zeros):
    """layer -> [len(values), N, Hq, Dv]: the gradient of each value by each layer's outputs."""
    found = {layer: [] for layer in zeros}
    for index, value in enumerate(values):
        last = index == len(values) - 1
        for layer, gradient in zip(zeros, torch.autograd.grad(
                value, list(zeros.values()), retain_graph=not last, allow_unused=True)):
            found[layer].append(torch.zeros_like(zeros[layer][0]) if gradient is None else gradient[0])
    return {layer: torch.stack(each) for layer, each in found.items()}


def check_logits(model, logits, whole):
    """Gradients are of rows on cached keys, which must give what the whole text gives."""
    error, largest = (logits - whole).abs().max().item(), whole.abs().max().item()
    if not error <= LOGIT_TOLERANCE * (1 + largest):
        raise InputError(f"{model.name_or_path}: its logits on the keys and values of the tokens before are "
                         f"not those of the whole text (they differ by {error:.2g}, expected at most "
                         f"{LOGIT_TOLERANCE * (1 + largest):.2g}), and --head-weights cannot be had")


def check_causal(gradients):
    """A gradient that reaches a later row, or is not finite, would give weights that mean nothing."""
    for layer, each in gradients.items():
        later = torch.ones(each.shape[:2], device=each.device).triu(1).bool()
        if each[later].any() or not each.isfinite().all():
            raise InputError(f"layer {layer}: the gradient of a margin is not finite, or not 0 for a later row: its "
                             "attention does not hide what comes later, and --head-weights cannot be had")


def check_differences(rows, layers, gradients, answer, other):
    """Compares the gradient with central differences of the sum of margins, along its own direction and along one that
    is half gradient, half noise."""
    random = torch.Generator().manual_seed(0)
    outputs = dict(rows.outputs)

    def total(layer, shift):
        with torch.no_grad():
            logits = rows.logits(shifts={layer: shift})
        return (logits.gather(1, answer[:, None]) - logits.gather(1, other[:, None])).double().sum().item()

    for layer in layers:
        gradient = gradients[layer].sum(0)
        size = gradient.norm().item()
        if size == 0:
            continue
        noise = torch.randn(gradient.shape, generator=random).to(gradient.device)
        own = gradient / size
        mixed = own + noise / noise.norm()
        for direction in (own, mixed / mixed.norm()):
            expected, errors = (gradient * direction).double().sum().item(), []
            for step in STEPS:
                length = step * outputs[layer].norm().item()
                difference = total(layer, length * direction) - total(layer, -length * direction)
                errors.append(abs(difference / (2 * length) - expected) / size)
                if errors[-1] <= DIFFERENCE_TOLERANCE:
                    break
            else:
                raise InputError(f"layer {layer}: the gradient of the margins is not that of finite differences "
                                 f"(relative error {min(errors):.2g}, expected at most {DIFFERENCE_TOLERANCE})")


def to_dump(gradients, expansion):
    """Gradients by the outputs that a dump has: those of latent attention are latents."""
    return gradients if expansion is None else torch.einsum("...hv,rhv->...hr", gradients, expansion)


def write_head_weights(options, model, capture, writer, sample, ids, positions, answer):
    """Adds the fields to a captured sample. `ids`: all its tokens; `answer`: those that the rows should give, as far as
    they are known."""
    if positions != list(range(positions[0], positions[-1] + 1)):
        raise InputError("--head-weights needs queries that follow each other, found positions with gaps")
    attached = model.config.get_text_config()._attn_implementation
    rows = Rows(model, capture.latents, ids[:positions[-1] + 1], len(positions))
    length = len(rows.ids).bit_length()
    with running(model, len(ids), "for its head gradients"), in_float32(model):
        hook(model, "attest_gradient", rows)
        try:
            rows.read_prefix()
            with torch.enable_grad():
                logits = rows.logits()
                if length not in capture.checked_lengths:
                    check_logits(model, logits.detach(), rows.read_whole())
                own = logits.argmax(1).tolist()
                token = torch.tensor([*answer, *own[len(answer):]], device=logits.device)
                margin, other = margins(logits, token)
                gradients = gradients_of(margin, rows.zeros)
            expansions = dict(rows.expansions)
            check_causal(gradients)
            check_differences(rows, sorted(set(capture.captured) - capture.checked_layers), gradients, token, other)
            capture.checked_lengths.add(length)
            capture.checked_layers |= set(capture.captured)
            scaled = {layer: [] for layer in capture.captured}
            for scale in SCALES if options.output_gradients else ():
                with torch.enable_grad():
                    total = margins(rows.logits(scale=scale), token)[0].sum()
                    for layer, each in gradients_of([total], rows.zeros).items():
                        if layer in scaled:
                            scaled[layer].append(to_dump(each[0], expansions.get(layer)))
        finally:
            model.set_attn_implementation(attached)
    writer.write_array(sample, "margin", margin.detach().cpu().numpy(), "<f4")
    writer.write_array(sample, "answer_token", token.cpu().numpy(), "<i4")
    for layer, state in capture.captured.items():
        each = to_dump(gradients[layer], expansions.get(layer))  # [N, N, Hq, Dv]
        writer.write_array(state.group, "head_gradient", each.square().sum((1, 3)).sqrt().cpu().numpy(), "<f4")
        if scaled[layer]:
            half = torch.stack(scaled[layer]).half().cpu().numpy()
            if not np.isfinite(half).all():
                raise InputError(f"layer {layer}: an output gradient is beyond float16")
            writer.write_array(state.group, "output_gradient", half, "<f2")
            with writer.writing():
                state.group["output_gradient"].attrs["scales"] = np.array(SCALES)
