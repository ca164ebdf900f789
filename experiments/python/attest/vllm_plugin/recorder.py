"""Takes the requests of a batch apart, and writes each once its last query has been computed."""
import os

from ..base.arguments import chosen_layers
from ..base.errors import AttestError, InputError, OutputError, UsageError, first_line
from .request import CapturedRequest, bytes_of
from .settings import read_wish
from .writer import write_refusal, write_request


class Recorder:
    """`batch` returns, during a step, the ids of its requests in the order of their tokens, and the token ids. `say`
    gets a line for each request."""

    def __init__(self, settings, engine, batch, say):
        self.settings, self.engine, self.batch, self.say = settings, engine, batch, say
        self.requests = {}  # id -> CapturedRequest, those under way
        self.names = {}  # id -> name of the sample
        self.num_taken = 0
        self.starts = None  # during a step: id -> position of its first token
        self.counts = None  # and id -> number of its tokens
        self.places = None  # and [(id, position, begin and end in the batch)], once a layer has asked
        os.makedirs(settings.folder, exist_ok=True)

    def begin_step(self, scheduled):
        """`scheduled`: vLLM's SchedulerOutput."""
        for key in scheduled.finished_req_ids:
            self.finish(key)
        cached = scheduled.scheduled_cached_reqs
        self.starts, self.counts, self.places = dict(zip(cached.req_ids, cached.num_computed_tokens)), {}, None
        self.counts.update(scheduled.num_scheduled_tokens)
        for key in set(cached.resumed_req_ids) & set(self.requests):
            if self.starts[key] and self.engine.prefix_caching:
                self.refuse(key, "was preempted and goes on from the prefix cache, whose keys other requests may have "
                                 "computed; --no-enable-prefix-caching makes every request whole")
        for new in scheduled.scheduled_new_reqs:
            self.starts[new.req_id] = new.num_computed_tokens
            self._guarded(new.req_id, self._take, new)

    def before(self, number, query, key, value, causal=True):
        """What arrives at layer `number`: query [tokens, Hq, D], key [tokens, Hkv, D], value [tokens, Hkv, Dv]."""
        for request_id, start, begin, end in self._places():
            request = self.requests.get(request_id)
            if request is not None and number in request.layers:
                self._guarded(request_id, request.place, number, start, query[begin:end], key[begin:end],
                              value[begin:end], causal)

    def after(self, number, output):
        """What layer `number` gives: [tokens, Hq, Dv]."""
        for request_id, start, begin, end in self._places():
            request = self.requests.get(request_id)
            if request is not None and number in request.layers:
                self._guarded(request_id, request.place_output, number, start, output[begin:end])

    def end_step(self):
        """After the layers of a step: requests with all their tokens are written."""
        for request_id, start, begin, end in self.places or ():
            if request_id in self.requests:
                self.requests[request_id].end_pass(start + end - begin)
        self.starts = None
        for request_id in [key for key, request in self.requests.items() if request.is_complete()]:
            self.finish(request_id)

    def give_up(self):
        """A step has failed: some layers have seen its tokens, some have not."""
        self.requests.clear()
        self.starts = None

    def finish(self, request_id):
        """Writes the queries that came; a request that ends early has fewer than were wanted."""
        request = self.requests.get(request_id)
        if request is not None and request.num_rows():
            self._guarded(request_id, self._write, request)
        self.requests.pop(request_id, None)
        self.names.pop(request_id, None)

    def finish_all(self):
        """At the end of the process, of which the engine tells nothing else."""
        for request_id in list(self.requests):
            self.finish(request_id)

    def refuse(self, request_id, reason):
        """Forgets a request, and leaves the reason beside the dumps for whoever asked for it."""
        self.requests.pop(request_id, None)
        name = self.names.get(request_id, request_id)
        self.say(f"not captured: request {name}: {reason}")
        try:
            write_refusal(self.settings.folder, name, f"request {name}: {reason}")
        except OutputError as error:  # a full disk, a folder that is gone: the engine goes on
            self.say(str(error))

    def _guarded(self, request_id, action, *arguments):
        """A request that fails is given up, and the engine goes on."""
        try:
            action(*arguments)
        except AttestError as error:
            self.refuse(request_id, str(error))
        except Exception as error:
            self.refuse(request_id, f"{type(error).__name__}: {first_line(error)}")

    def _take(self, new):
        """Begins with a new request, if it is wanted."""
        if new.sampling_params is None or new.prompt_token_ids is None:  # pooling, or a prompt of embeddings
            return
        wish = read_wish(self.settings, new.req_id, len(new.prompt_token_ids), new.sampling_params.extra_args)
        if wish is None or not wish.own and self.num_taken >= self.settings.requests:
            return
        self.num_taken += not wish.own
        self.names[new.req_id] = wish.name
        if new.num_computed_tokens:
            raise InputError(f"its first {new.num_computed_tokens} tokens come from a cache, so that their keys do not "
                             "reach the attention layers; --no-enable-prefix-caching makes every request whole")
        layers, most = self._layers_of(wish), self.settings.memory
        needed = bytes_of(wish, layers)
        beside = sum(bytes_of(other.wish, other.layers) for other in self.requests.values())
        if needed + beside > most * 2**30:  # a client of the server may ask for any position
            raise InputError(f"takes {needed / 2**30:.2g} GiB beside {beside / 2**30:.2g} GiB of requests under way, "
                             f"ATTEST_VLLM_MEMORY allows {most:g}; fewer layers take less")
        if layers:  # another pipeline rank may have them
            self.requests[new.req_id] = CapturedRequest(wish, layers)

    def _layers_of(self, wish):
        engine = self.engine
        if wish.layers is None:
            return engine.layers
        numbers = chosen_layers(wish.layers, engine.num_layers, "")
        for number in numbers & set(engine.left_out):
            raise UsageError(f"layer {number} {engine.left_out[number]}")
        if engine.rank.pipeline_size == 1 and not numbers <= set(engine.layers):
            raise UsageError(f"layer {min(numbers - set(engine.layers))} has no attention")
        return {number: layer for number, layer in engine.layers.items() if number in numbers}

    def _places(self):
        if self.places is None:
            self.places, begin = [], 0
            ids, tokens = self.batch()
            if set(ids) != set(self.counts):  # of a runner that these names do not fit: the engine goes on
                for request_id in list(self.requests):
                    self.refuse(request_id, f"the batch has the requests {sorted(ids)}, expected {sorted(self.counts)}")
                return self.places
            for request_id in ids:
                end = begin + self.counts[request_id]
                if request_id in self.requests:
                    self.places.append((request_id, self.starts[request_id], begin, end))
                    self._guarded(request_id, self.requests[request_id].begin_pass, self.starts[request_id],
                                  tokens[begin:end])
                begin = end
        return self.places

    def _write(self, request):
        path = write_request(self.settings.folder, self.engine, request)
        self.say(f"{path}: {request.num_rows()} queries of {request.length} tokens")
