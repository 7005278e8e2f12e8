"""Value-based flow: which write each read sees, of all writes before it the last one (Feautrier's analysis).

isl computes it. On a few programs of loops in steps it fails, with divisions in its own way; there the same relations
are found from the accesses and the times by lexicographic maxima.
"""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

_IN, _OUT = isl.dim_type.in_, isl.dim_type.out


@dataclass(frozen=True, slots=True)
class LastWriters:
    """`dependence`: writer -> [reader -> element], of every write that a read may see. `no_source`: reader -> element,
    of reads that may see what the element held from the start."""

    dependence: isl.UnionMap
    no_source: isl.UnionMap


def last_writers(sinks: isl.UnionMap, must: isl.UnionMap, may: isl.UnionMap, times: isl.UnionMap) -> LastWriters:
    """Compute the flow from `must` and `may`, definite and possible writes, into the reads `sinks`.

    Requires: `times` gives reads and writes single times of one length, different ones to a read and a write.
    Raises isl.Error where isl has no operations left.
    """
    info = isl.UnionAccessInfo.from_sink(sinks).set_must_source(must).set_may_source(may).set_schedule_map(times)
    try:
        flow = info.compute_flow()
    except isl.Error:
        return by_maxima(sinks, must, may, times)
    return LastWriters(flow.get_full_may_dependence(), flow.get_may_no_source())


def by_maxima(sinks: isl.UnionMap, must: isl.UnionMap, may: isl.UnionMap, times: isl.UnionMap) -> LastWriters:
    """The same by lexicographic maxima of the times of earlier writes."""
    when = {_name(each): each.reset_tuple_id(_OUT) if each.has_tuple_id(_OUT) else each for each in _maps(times)}
    dependence, no_source = isl.UnionMap("{ }"), isl.UnionMap("{ }")
    for sink in _maps(sinks):
        read = sink.domain_map().apply_range(when[_name(sink)])
        moments = read.get_space().range()
        earlier = read.apply_range(isl.Map.lex_gt(moments))
        last = isl.Map.empty(read.get_space())
        for write in _to(sink, must):
            last = last.union(_seen(sink, write).apply_range(when[_name(write)]).intersect(earlier))
        last = last.lexmax()
        missing = sink.wrap().subtract(last.domain())
        later = earlier.intersect(last.apply_range(isl.Map.lex_lt(moments))).union(earlier.intersect_domain(missing))
        for writes, allowed in ((must, last), (may, later)):
            for write in _to(sink, writes):
                pairs = _seen(sink, write).intersect(allowed.apply_range(when[_name(write)].reverse()))
                dependence = dependence.union(isl.UnionMap.from_map(pairs.reverse()))
        no_source = no_source.union(isl.UnionMap.from_map(missing.unwrap()))
    return LastWriters(dependence, no_source)


def _seen(sink: isl.Map, write: isl.Map) -> isl.Map:
    """[reader -> element] -> writer, of all writes of the element."""
    found = sink.range_map()
    return found.apply_range(write.reverse())


def _to(sink: isl.Map, writes: isl.UnionMap) -> list[isl.Map]:
    """The writes of the array that is read."""
    return [write for write in _maps(writes) if write.get_tuple_name(_OUT) == sink.get_tuple_name(_OUT)]


def _name(relation: isl.Map) -> str:
    return str(relation.get_tuple_name(_IN))


def _maps(union: isl.UnionMap) -> list[isl.Map]:
    found: list[isl.Map] = []
    union.foreach_map(found.append)
    return found
