"""Last writers against a run of the program: on random statements in loops of steps, with guards and may-writes."""

from __future__ import annotations

import random
from pathlib import Path

import islpy as isl
import pytest

from dspgen.frontend.read import read_c
from plant_core.analysis.dependence import flows
from plant_core.analysis.last_writers import LastWriters, by_maxima, last_writers

Accesses = dict[str, isl.Map]


def statements(rng: random.Random) -> tuple[Accesses, Accesses, Accesses, Accesses]:
    """Reads, definite writes, possible writes and times of statements in a few nests of two loops."""
    reads, must, may, times = Accesses(), Accesses(), Accesses(), Accesses()
    for number in range(rng.choice((2, 3, 4))):
        step, guard = rng.choice((1, 2, 3)), rng.choice(("", "and j >= i - 1", "and j < i", "and (i + j) mod 2 = 0"))
        where = f"0 <= i < {rng.choice((4, 7))} and i mod {step} = 0 and 0 <= j < {rng.choice((4, 6))} {guard}"
        nest, name = rng.randrange(2), f"S{number}"
        for kind, k in ((reads, 0), (rng.choice((must, must, may)), 1)):
            at = rng.choice(("i + j", "2j", "j", "i + 3", "i - j + 6", "4", "i + 2j"))
            tuple_ = f"R{number}" if kind is reads else name
            kind[tuple_] = isl.Map(f"{{ {tuple_}[i, j] -> A[{at}] : {where} }}")
            times[tuple_] = isl.Map(f"{{ {tuple_}[i, j] -> [{nest}, i, j, {number}, {k}] : {where} }}")
    return reads, must, may, times


def together(maps: Accesses) -> isl.UnionMap:
    found = isl.UnionMap("{ }")
    for each in maps.values():
        found = found.union(isl.UnionMap.from_map(each))
    return found


def points(relation: isl.Map) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    found = list[tuple[tuple[int, ...], tuple[int, ...]]]()
    count, whole = relation.dim(isl.dim_type.in_), relation.wrap()

    def add(point: isl.Point) -> None:
        each = [point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(whole.dim(isl.dim_type.set))]
        found.append((tuple(each[:count]), tuple(each[count:])))

    whole.foreach_point(add)
    return found


def run(reads: Accesses, must: Accesses, may: Accesses, times: Accesses) -> tuple[set[object], set[object]]:
    """The same flow, from the accesses one after another."""
    when = {(name, here): time for name, relation in times.items() for here, time in points(relation)}
    events = [
        (when[name, here], kind, name, here, element)
        for kind, accesses in (("read", reads), ("must", must), ("may", may))
        for name, relation in accesses.items()
        for here, element in points(relation)
    ]
    seen: dict[tuple[int, ...], list[tuple[str, tuple[int, ...]] | None]] = {}
    dependence, no_source = set[object](), set[object]()
    for _, kind, name, here, element in sorted(events):
        held = seen.setdefault(element, [None])
        if kind == "read":
            dependence |= {(writer, (name, here, element)) for writer in held if writer is not None}
            no_source |= {(name, here, element)} if None in held else set()
        elif kind == "must":
            held[:] = [(name, here)]
        else:
            held.append((name, here))
    return dependence, no_source


def told(found: LastWriters) -> tuple[set[object], set[object]]:
    dependence, no_source = set[object](), set[object]()

    def pairs(relation: isl.Map) -> None:
        writer, reader = relation.get_tuple_name(isl.dim_type.in_), relation.range().unwrap()
        for here, there in points(relation):
            name = reader.get_tuple_name(isl.dim_type.in_)
            dependence.add(((writer, here), (name, there[:2], there[2:])))

    def first(relation: isl.Map) -> None:
        name = relation.get_tuple_name(isl.dim_type.in_)
        no_source.update((name, here, element) for here, element in points(relation))

    found.dependence.foreach_map(pairs)
    found.no_source.foreach_map(first)
    return dependence, no_source


@pytest.mark.parametrize("seed", range(30))
def test_each_read_sees_the_last_writer(seed: int) -> None:
    reads, must, may, times = statements(random.Random(seed))
    given = [together(each) for each in (reads, must, may, times)]
    expected = run(reads, must, may, times)
    assert expected[0] and told(by_maxima(*given)) == expected and told(last_writers(*given)) == expected


def test_flow_where_isl_fails(tmp_path: Path) -> None:
    path = tmp_path / "strided.c"
    path.write_text("""
        void strided(const int a[16], const float b[10][10], float c[16], int d[24]) {
          for (int i = 0; i < 5; i += 3)
            for (int j = 0; j <= 8; j++) {
              if (j >= i - 1) c[i + j + 1] = c[i + j] * 0.3f + c[i + 3];
              else d[4] = d[i + 2] - (d[4] > a[j + 4] ? 30 : d[j + 2]);
            }
          for (int i = 0; i <= 3; i += 3)
            for (int j = 1; j < 10; j++) {
              if (b[j][i + 1] > -0.3f) c[j - 1] = b[i][j - 1];
              else d[i + 2] = d[i + 2] > a[i + 2] ? a[3 - i] : d[2 * j + 2] - d[i];
            }
        }""")
    found = {(f.source, f.sink, f.buf) for f in flows(read_c(str(path)))}
    assert ("S0", "S0", "c") in found
