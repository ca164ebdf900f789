"""Steps of a decoding model as one CUDA graph, and the time of each replay."""
import time

import torch


def captured(run, device):
    """A function that runs `run` again on the same memory: the replay of a CUDA graph. On the CPU, `run` itself."""
    if device.type != "cuda":
        return run
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def milliseconds(replay, repeats, device, warm_up):
    """The time of each of `repeats` replays behind the warm-up, between which nobody waits for the device."""
    for _ in range(warm_up):
        replay()
    if device.type != "cuda":
        times = [time.perf_counter()]
        for _ in range(repeats):
            replay()
            times.append(time.perf_counter())
        return [1000 * (end - begin) for begin, end in zip(times, times[1:])]
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    events[0].record()
    for event in events[1:]:
        replay()
        event.record()
    torch.cuda.synchronize(device)
    return [round(begin.elapsed_time(end), 4) for begin, end in zip(events, events[1:])]  # they tick every 0.5 us


class Loop:
    """Greedy decoding: each run is a step, which feeds the next one."""

    def __init__(self, decoder, tokens, position, attend):
        self.decoder, self.first, self.begin, self.attend = decoder, tokens, position, attend
        self.tokens = tokens.clone()
        self.position = torch.tensor([position], device=decoder.device)
        self.logits = None  # of the latest run or replay

    def run(self):
        """One step: the likeliest tokens become the next ones."""
        self.logits = self.decoder.step(self.tokens, self.position, self.attend)
        self.tokens.copy_(self.logits.argmax(-1))
        self.position.add_(1)

    def restart(self):
        """In place: a captured graph keeps the addresses of its tensors."""
        self.tokens.copy_(self.first)
        self.position.fill_(self.begin)


class Recorder:
    """Passes through, and keeps what each layer's attention was given."""

    def __init__(self, attend):
        self.through, self.seen = attend, []

    def attend(self, layer, q, k, v):
        """Copies what a layer's attention is given, as the step overwrites it."""
        self.seen.append((layer, q.clone(), k.clone(), v.clone()))
        return self.through(layer, q, k, v)


def attention_alone(attend, seen):
    """Runs the attention of all layers, appends included, on recorded inputs."""

    def run():
        for layer, q, k, v in seen:
            attend(layer, q, k, v)

    return run
