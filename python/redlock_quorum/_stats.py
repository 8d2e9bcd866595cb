"""The numbers of a client as text for Prometheus; see redlock/stats.h."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ._errors import make_error, of_last_call
from ._native import NULL, ffi, lib

TAKEN = {"node", "result", "cause", "le"}  # by the metrics themselves


def prometheus_text(read: Callable[[Any], int], labels: Mapping[str, str]) -> str:
    """`read` fills the stats by its client, which must exist until this function returns."""
    nodes = ffi.new("redlock_node_stats[]", lib.REDLOCK_NODES_MAX)
    stats = ffi.new("redlock_stats *")
    lib.redlock_stats_init_sized(stats, ffi.sizeof("redlock_stats"),
                                 ffi.sizeof("redlock_node_stats"))
    stats.nodes, stats.room = nodes, lib.REDLOCK_NODES_MAX
    if read(stats) != lib.REDLOCK_OK:
        raise of_last_call()
    kept = []  # the memory of the labels
    array = ffi.new("redlock_label[]", len(labels))
    for label, pair in zip(array, labels.items()):
        if pair[0] in TAKEN or not pair[0].isascii():
            raise make_error(lib.REDLOCK_BAD_OPTION,
                             f"the label {pair[0]!r} is taken, or not ASCII")
        if not isinstance(pair[1], str):
            raise TypeError(f"the label {pair[0]} is a str, not {pair[1]!r}")
        name, value = (ffi.new("char[]", text.encode()) for text in pair)
        label.name, label.value = name, value
        kept += [name, value]
    room = lib.redlock_stats_prometheus(stats, array, len(labels), NULL, 0) + 1
    text = ffi.new("char[]", room)
    lib.redlock_stats_prometheus(stats, array, len(labels), text, room)
    return str(ffi.string(text).decode())
