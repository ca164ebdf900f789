"""Measures one point: a context length and a batch size, dense and with FFD. Logits are compared first."""
import contextlib
import dataclasses
import gc
import statistics

import torch

from ..base.errors import AttestError, first_line
from .caches import BACKENDS, DenseCache, FfdCaches, NoAttention, calibrate, key_exponents, kept_share
from .replay import Loop, Recorder, attention_alone, captured, milliseconds

WARM_UP = 3
PARTS = 4  # of the timed steps, behind each of which is looked at what FFD kept
CALIBRATING_STEPS = 8  # sequences times steps on which deltas are calibrated
# Of logits, to those of attention in float32 over the same 16-bit cache: norm of the difference over the norm.
TOLERANCE = {torch.float16: 0.005, torch.bfloat16: 0.03}
LEAST_EFFECT = 3  # tolerances by which the logits change when attention is left out: the check can see it
SPARE_BYTES = 3 << 29  # activations, libraries, one layer's keys while a cache is built


class CheckError(AttestError):
    """The logits of two methods differ by more than rounding."""


@dataclasses.dataclass
class Setting:
    """What is kept of FFD's blocks: `shares` [L, Hkv], from `keep` of all, or from a dump at a delta."""
    kind: str  # "keep" or "delta"
    value: float
    shares: torch.Tensor


@dataclasses.dataclass
class Plan:
    seed: int
    repeats: int
    settings: list
    operators: object
    free_bytes: object  # () -> bytes that may be taken


@dataclasses.dataclass
class Measured:
    method: str
    context: int
    batch: int
    setting: Setting | None
    kept: float
    step: list  # milliseconds of each step
    attention: list  # and of the attention of all layers alone
    cache_bytes: int
    # Of logits, as shares of the reference's norm: how far they are from it, how far they may be, and what leaving
    # attention out changes.
    difference: float
    tolerance: float
    effect: float


def difference(found, expected):
    """The difference in the sequence where it is largest."""
    found, expected = found.double(), expected.double()
    return ((found - expected).norm(dim=-1) / expected.norm(dim=-1)).max().item()


def bytes_needed(decoder, context, batch):
    """The bytes of the dense caches, which are the larger ones but for the places of the steps to come."""
    token = 2 * decoder.kv_heads * decoder.head_dim * 2 * batch
    return decoder.num_layers * token * context + 3 * token * context + SPARE_BYTES


class Point:
    def __init__(self, decoder, context, batch, plan):
        self.decoder, self.context, self.batch, self.plan = decoder, context, batch, plan
        self.generator = torch.Generator(decoder.device).manual_seed(plan.seed)
        self.tokens = self._any_tokens()
        self.tolerance = TOLERANCE[decoder.dtype]
        self.left_out = []

    def measure(self):
        """[Measured, ...]; `left_out` has what was not."""
        needed, free = bytes_needed(self.decoder, self.context, self.batch), self.plan.free_bytes()
        if needed > free:
            self.leave_out("all", f"needs {needed / 1e9:.1f} GB beside the weights, and {free / 1e9:.1f} GB may be "
                           "taken")
            return []
        measured = self._if_it_fits("all", None, self._dense)
        if measured is None:
            return []
        for setting in self.plan.settings:
            found = self._if_it_fits("ffd", setting, lambda: self._ffd(setting))
            measured += [found] if found else []
        return measured

    def _if_it_fits(self, method, setting, work):
        """What `work` gives; None where the device's memory does not suffice, so that what was measured before
        stays."""
        try:
            return work()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            self.leave_out(method, "the device's memory does not suffice", setting)
            return None
        finally:
            release(self.decoder.device)

    def leave_out(self, method, reason, setting=None):
        """Notes it for the record, which has a line for everything that was asked for."""
        of = {"setting": {"kind": setting.kind, "value": setting.value}} if setting else {}
        self.left_out.append({"method": method, **of, "context": self.context, "batch": self.batch, "reason": reason})

    def _any_tokens(self):
        vocabulary, device = len(self.decoder.embedding), self.decoder.device
        return torch.randint(vocabulary, (self.batch,), generator=self.generator, device=device)

    def _loop(self, attend):
        return Loop(self.decoder, self.tokens, self.context - 1, attend)

    def _dense(self):
        """Its reference, what leaving attention out changes, and the size of keys stay for _ffd."""
        recorder = Recorder(NoAttention().attend)
        without = self._loop(recorder.attend)
        without.run()
        self.exponents = key_exponents([q for _, q, _, _ in recorder.seen])
        cache = DenseCache(self.decoder, self.batch, self.context, self.plan.seed, self.exponents)
        recorder = Recorder(cache.attend)
        plain = self._loop(recorder.attend)
        plain.run()
        self.reference = plain.logits
        self.effect = difference(without.logits, self.reference)
        if not self.effect > LEAST_EFFECT * self.tolerance:
            raise CheckError(f"context {self.context}, batch {self.batch}: without attention the logits change by "
                             f"{self.effect:.3g} of their norm, expected more than "
                             f"{LEAST_EFFECT * self.tolerance:.3g}: the model does not show what its attention "
                             "computes")
        found = []
        for cache.backend in self.backends():
            with self._or_left_out(cache.backend):
                loop = self._loop(cache.attend)
                loop.run()  # libraries choose their kernels
                replay = captured(loop.run, self.decoder.device)
                off = self._check(cache.backend, loop, replay)
                step = milliseconds(replay, self.plan.repeats, self.decoder.device, WARM_UP)
                attention = self._alone(cache.attend, recorder.seen)
                found.append(self._measured(cache.backend, None, 1.0, step, attention, cache.bytes(), off))
                del loop, replay
        del cache, recorder, plain, without
        release(self.decoder.device)
        return found

    def backends(self):
        """Those of SDPA that the device has; which of them refuse is seen when they are called."""
        return list(BACKENDS) if self.decoder.device.type == "cuda" else ["sdpa_flash"]

    def _ffd(self, setting):
        """On caches of its own: what FFD keeps depends on the last full block, which many steps would fill
        with the model's own keys."""
        plan, device = self.plan, self.decoder.device
        steps = 1 + PARTS * WARM_UP + plan.repeats + WARM_UP + plan.repeats
        caches = FfdCaches(self.decoder, self.batch, self.context, self.context + steps, plan.seed, self.exponents,
                           plan.operators)
        seen = self._seen(lambda layer, q, k, v: caches.decode(layer, q), -(-CALIBRATING_STEPS // self.batch))
        loop, kept = self._loop(caches.attend), {}

        def run():
            loop.run()
            kept.update(caches.kept)  # of a graph: the memory that each replay fills

        replay = captured(run, device)
        off, tokens = self._check("ffd", loop, replay), self.context
        calibrate(caches, setting.shares, tokens, [[q for _, q, _, _ in layer] for layer in zip(*seen)])
        loop.restart()
        step, shares = [], []
        for part in range(PARTS):
            count = plan.repeats * (part + 1) // PARTS - plan.repeats * part // PARTS
            step += milliseconds(replay, count, device, WARM_UP)
            tokens += count + WARM_UP
            shares.append(kept_share(kept, tokens))
        attention = self._alone(caches.attend, seen[0])
        found = self._measured("ffd", setting, statistics.mean(shares), step, attention, caches.bytes(), off)
        del caches, loop, run, replay, kept
        release(device)
        return found

    def _seen(self, attend, steps):
        """What each layer's attention is given, [(layer, q, k, v)] of some steps from different tokens; libraries
        choose their kernels meanwhile."""
        found = []
        for _ in range(steps):
            recorder = Recorder(attend)
            loop = self._loop(recorder.attend)
            loop.tokens = self._any_tokens()
            loop.run()
            found.append(recorder.seen)
        return found

    def _check(self, method, loop, replay):
        """One replay from the start: its logits beside the reference."""
        loop.restart()
        replay()
        off = difference(loop.logits, self.reference)
        if not off <= self.tolerance:
            raise CheckError(f"{method}, context {self.context}, batch {self.batch}: with everything kept the logits "
                             f"differ from those of attention in float32 by {off:.3g} of their norm, expected at most "
                             f"{self.tolerance:.3g}; no time is reported")
        return off

    def _alone(self, attend, seen):
        device = self.decoder.device
        return milliseconds(captured(attention_alone(attend, seen), device), self.plan.repeats, device, WARM_UP)

    def _measured(self, method, setting, kept, step, attention, cache_bytes, off):
        return Measured(method, self.context, self.batch, setting, kept, step, attention, cache_bytes, off,
                        self.tolerance, self.effect)

    @contextlib.contextmanager
    def _or_left_out(self, method):
        """For a back end that refuses."""
        try:
            yield
        except (RuntimeError, NotImplementedError) as error:
            if is_out_of_memory(error):
                raise
            self.leave_out(method, first_line(error))


def is_out_of_memory(error):
    """Whether torch found no memory, or FFD's caches, to which torch does not give it; ending a graph's capture may
    hide it."""
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error) or \
        isinstance(error.__context__, RuntimeError) and is_out_of_memory(error.__context__)


def release(device):
    """FFD's caches take memory beside torch's own."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
