"""Values of settings computed from the figures of the run that failed. Where a figure is missing, nothing is computed.

Every computation takes the run's `Figures` and gives the value as it is to be typed with the reckoning in words, or None.
The knowledge names them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from triage.analysis.figures import Figures

GIB = float(1 << 30)
MOST_SHARE = 0.97  # of a GPU's memory for weights and cache
LEAST_SHARE = 0.3
_LEAST_SLACK = 0.5  # GB that have to stay for activations
_SPARE = 0.01  # of the GPU that is left free beyond what was lacking, at least 1 GiB
_HOST_RESERVE = 10.0  # GB of host memory that the server keeps free
_MAX_PORT = 65535
_LEAST_CHUNK = 1024


@dataclass(frozen=True)
class Computed:
    """A value as it is typed, and how it was reckoned."""

    value: str
    why: str


Computation = Callable[[Figures], Computed | None]


def share_for_pool(run: Figures) -> Computed | None:
    """The static share that gives the KV cache half of what the weights left free.

    From "avail mem" before and after the weights (the smallest rank): the cache gets what is free after them less
    (1 - share) of what was free before. Rounded down to 0.01. None above 0.97, or where the rest is under 0.5 GB, or where
    the share in use is as large already.
    """
    after = run.told.get("after_weights")
    before = run.told.get("before_weights")
    if before is None and after is not None and "weights" in run.told:
        before = after + run.told["weights"]
    if after is None or before is None or not 0 < after <= before:
        return _share_above(run)
    least = 1 - after / before
    share = _down(1 - after / 2 / before)
    now = run.setting("mem_fraction_static") or run.hole("share")
    if share > MOST_SHARE or share <= least or after / 2 < _LEAST_SLACK or (now is not None and share <= now):
        return None
    pool = after - before * (1 - share)
    why = f"the weights leave {after:.2f} of {before:.2f} GB: above {least:.3f} something is left for the cache, {share} gives it"
    return Computed(f"{share}", f"{why} {pool:.2f} GB")


def _share_above(run: Figures) -> Computed | None:
    """Where the message itself tells the least share: a hundredth above it."""
    least = run.hole("least")
    if least is None or not 0 < least < MOST_SHARE - 0.02:
        return None
    share = math.ceil(least * 100 + 1) / 100
    return Computed(f"{share}", f"the message tells that above {least} something is left for the cache")


def share_after_oom(run: Figures) -> Computed | None:
    """The static share less what was lacking when memory ran out.

    From the message: what was asked for, what was free, the GPU's memory. Lacking is the difference and 1 GiB (or a
    hundredth of the GPU) more; the share goes down by it, by 0.02 at least, rounded down to 0.01. None where the share in use is
    not known, or where the weights alone need more than the new one.
    """
    now, tried, free, total = run.setting("mem_fraction_static"), run.hole("tried"), run.hole("free"), run.hole("total")
    if now is None or tried is None or free is None or not total:
        return None
    lacking = max(tried - free, 0.0) + max(GIB, _SPARE * total)
    share = _down(min(now - lacking / total, now - 0.02))
    after, before = run.told.get("after_weights"), run.told.get("before_weights")
    least = 1 - after / before if after and before else LEAST_SHARE
    if share < max(LEAST_SHARE, least + 0.01):
        return None
    why = f"{tried / GIB:.2f} GiB were asked for with {free / GIB:.2f} GiB free of {total / GIB:.2f}"
    return Computed(f"{share}", f"{why}: {now:g} less {lacking / total:.3f} of the GPU's memory")


def half_graph_batch(run: Figures) -> Computed | None:
    """Half of the largest batch that is captured, by the settings or by the first batch that the log shows captured."""
    now = run.setting("cuda_graph_max_bs", "cuda_graph_max_bs_decode") or run.told.get("graph_batch")
    return _half(now, 1, "the largest captured batch was")


def half_requests(run: Figures) -> Computed | None:
    """Half of the running requests, by the settings or by the log."""
    return _half(run.setting("max_running_requests") or run.told.get("requests"), 1, "the running requests were at most")


def half_chunk(run: Figures) -> Computed | None:
    """Half of the prefill chunk, by the settings or by the log; not under 1024."""
    return _half(run.setting("chunked_prefill_size") or run.told.get("chunk"), _LEAST_CHUNK, "a prefill chunk had")


def _half(now: float | None, least: int, what: str) -> Computed | None:
    if now is None or int(now) // 2 < least:
        return None
    return Computed(f"{int(now) // 2}", f"{what} {int(now)}: half of it")


def host_cache(run: Figures) -> Computed | None:
    """Whole GB of host cache for each rank that fit: what the message tells as free, less the 10 GB that the server keeps."""
    need, free = run.hole("need"), run.hole("free")
    if need is None or free is None:
        return None
    size = math.floor(free - _HOST_RESERVE)
    if size < 1 or size >= need:
        return None
    return Computed(f"{size}", f"{free:.2f} GB were free when {need:.2f} were asked for, and {_HOST_RESERVE:.0f} stay in reserve")


def next_port(run: Figures) -> Computed | None:
    """The number after the port in use; whether it is free is not known."""
    port = run.hole("port") or run.setting("port")
    if port is None or not 0 < port < _MAX_PORT:
        return None
    return Computed(f"{int(port) + 1}", f"the number after {int(port)}; whether it is free shows only on the host")


def gpus_at_hand(run: Figures) -> Computed | None:
    """The largest number of ranks that divides the one asked for and for which there are GPUs, by the host's facts."""
    now, count = run.setting("tp_size", "tensor_parallel_size"), run.facts.gpu_count
    if now is None or not count or now <= count or not now.is_integer():
        return None
    ranks = next(n for n in range(count, 0, -1) if int(now) % n == 0)
    return Computed(f"{ranks}", f"{int(now)} ranks on {count} GPUs")


def ranks_that_divide(run: Figures) -> Computed | None:
    """The largest power of two below the ranks in use that divides what could not be cut."""
    n, now = run.hole("n"), run.hole("tp")
    return _ranks(now, lambda ranks: n is not None and n % ranks == 0, f"{n or 0:.0f} is divisible by")


def ranks_for_blocks(run: Figures) -> Computed | None:
    """The largest power of two below the ranks in use that leaves each rank whole quantization blocks of the layer."""
    part, block, now = run.hole("part"), run.hole("block"), run.setting("tp_size", "tensor_parallel_size")
    if part is None or not block or now is None:
        return None
    whole = part * now
    return _ranks(now, lambda ranks: whole % (ranks * block) == 0, f"{whole:.0f} in blocks of {block:.0f} can be cut by")


def _ranks(now: float | None, fits: Callable[[int], bool], why: str) -> Computed | None:
    if now is None or not 1 < now <= 4096:
        return None
    powers = [1 << n for n in range(12, -1, -1) if 1 << n < now]
    ranks = next((p for p in powers if fits(p)), None)
    return Computed(f"{ranks}", f"{why} {ranks}") if ranks is not None else None


def _down(share: float) -> float:
    return math.floor(share * 100 + 1e-6) / 100


COMPUTATIONS: Mapping[str, Computation] = {
    made.__name__: made
    for made in (
        share_for_pool,
        share_after_oom,
        half_graph_batch,
        half_requests,
        half_chunk,
        host_cache,
        next_port,
        gpus_at_hand,
        ranks_that_divide,
        ranks_for_blocks,
    )
}
