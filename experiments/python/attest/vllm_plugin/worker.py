"""Puts a Recorder into vLLM's workers."""
import atexit
import functools

from ..base.errors import first_line
from .engine import describe_engine
from .recorder import Recorder
from .writer import write_refusal


def install(settings):
    """Wraps the object that each worker process has of its worker: once its model and cache are there, every step tells
    the recorder what it computes. Plugins may be loaded more than once."""
    from vllm.logger import init_logger
    from vllm.v1.worker.worker_base import WorkerWrapperBase as Wrapper

    if hasattr(Wrapper, "attest_recorder"):
        return
    Wrapper.attest_recorder = None
    say = init_logger("vllm.attest").info
    initialize, execute = Wrapper.initialize_from_config, Wrapper.execute_model

    @functools.wraps(initialize)
    def initialize_from_config(self, *arguments, **named):
        result = initialize(self, *arguments, **named)
        try:
            self.attest_recorder = make_recorder(settings, self.vllm_config, self.worker.model_runner, say)
        except Exception as error:  # the engine's other processes do not learn what a worker dies of
            write_refusal(settings.folder, "engine", first_line(error))
            raise
        return result

    @functools.wraps(execute)
    def execute_model(self, scheduled, *arguments, **named):
        recorder = self.attest_recorder
        recorder.begin_step(scheduled)
        try:
            result = execute(self, scheduled, *arguments, **named)
        except BaseException:
            recorder.give_up()
            raise
        recorder.end_step()
        return result

    Wrapper.initialize_from_config, Wrapper.execute_model = initialize_from_config, execute_model


def make_recorder(settings, config, runner, say):
    """Hooks the layers of this worker's model."""
    engine = describe_engine(config)
    recorder = Recorder(settings, engine, batch_of(runner), say)
    for number, layer in engine.layers.items():
        hook_layer(recorder, number, layer.module)
    atexit.register(recorder.finish_all)  # requests whose end the engine has not told
    say(f"attention of the layers {', '.join(map(str, engine.layers))} goes to {settings.folder}" + "".join(
        f"; left out: layer {number} {reason}" for number, reason in engine.left_out.items()))
    return recorder


def batch_of(runner):
    """A function that tells, during a step, the requests of the batch in the order of their tokens, and the tokens."""
    if not hasattr(runner, "prepare_inputs"):  # the runner that keeps its batch from step to step
        return lambda: (list(runner.input_batch.req_ids), runner.input_ids.gpu)
    prepare, last = runner.prepare_inputs, []

    @functools.wraps(prepare)
    def prepare_inputs(*arguments, **named):
        last[:] = [prepare(*arguments, **named)]
        return last[0]

    runner.prepare_inputs = prepare_inputs
    return lambda: (list(last[0].req_ids), last[0].input_ids)


def hook_layer(recorder, number, layer):
    """Wraps what the layer's custom operator calls: its Python code runs in compiled models, too."""
    forward = layer.impl.forward

    @functools.wraps(forward)
    def recorded(module, query, key, value, cache, metadata, *arguments, **named):
        if recorder.starts is None or metadata is None:  # the engine warms up
            return forward(module, query, key, value, cache, metadata, *arguments, **named)
        recorder.before(number, multiplied_query(layer, query, key), key, value,
                        getattr(metadata, "causal", True) is True)
        result = forward(module, query, key, value, cache, metadata, *arguments, **named)
        output = named["output"] if "output" in named else arguments[0] if arguments else result
        recorder.after(number, output.view(len(output), layer.num_heads, -1))
        return result

    layer.impl.forward = recorded


def multiplied_query(layer, query, key):
    """The queries as attention multiplies them, in the type of the keys: some backends get 8-bit codes and a scale."""
    if query.element_size() > 1:
        return query
    scale = layer._q_scale.float().reshape(-1)  # one, or one per KV head
    if scale.numel() > 1:
        scale = scale.repeat_interleave(query.shape[1] // scale.numel())[:, None]
    return (query.float() * scale).to(key.dtype)
