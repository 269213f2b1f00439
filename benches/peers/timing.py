"""Time on a CUDA device by replayed graphs, and time on the wall."""
import statistics
import time

import torch


def event():
    return torch.cuda.Event(enable_timing=True)


def between_events(run, calls):
    start, end = event(), event()
    start.record()
    for _ in range(calls):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / calls


def calls_for(us):
    """Enough calls in a graph to hide its launch."""
    return 1 if us > 4000 else max(2, min(40, int(2000 / max(us, 1))))


def wall_us(run, seconds=0.05):
    """The median of calls, each waited for."""
    samples, begin = [], time.perf_counter()
    while len(samples) < 3 or (len(samples) < 100 and time.perf_counter() - begin < seconds):
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        samples.append((time.perf_counter() - start) * 1e6)
    return statistics.median(samples)


def capture(run, calls):
    """A graph of so many calls. Not `torch.cuda.graph`, which empties the allocator's cache each time."""
    side = capture.stream = getattr(capture, "stream", None) or torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        run()
        side.synchronize()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            for _ in range(calls):
                run()
        finally:
            graph.capture_end()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    return graph


def graph_us(run, estimate, repetitions):
    calls = calls_for(estimate)
    graph = capture(run, calls)
    graph.replay()
    torch.cuda.synchronize()
    return statistics.median(between_events(graph.replay, 1) / calls for _ in range(repetitions))


def time_us(run, graphs=True, repetitions=7):
    """(device us, wall us, note) of a function that has run before."""
    on_wall = wall_us(run)
    estimate = between_events(run, 2)
    if estimate > 4000:
        repetitions = min(repetitions, 3)
    note = "eager: events around calls, host included"
    if graphs:
        try:
            return graph_us(run, estimate, repetitions), on_wall, None
        except Exception as error:  # a library that cannot be captured is timed all the same
            torch.cuda.synchronize()
            note += "; not captured: " + str(error).splitlines()[0][:100]
    calls = max(2, min(50, int(20000 / max(estimate, 1))))
    eager = statistics.median(between_events(run, calls) for _ in range(3))
    return eager, on_wall, note
