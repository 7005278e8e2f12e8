"""Functions of many nests, which are searched beside each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.search.plan_search import FEW_NESTS, Chooser
from dspgen.target.load import load_target
from dspgen.tiling.loops.loop_arrangements import spaced
from dspgen.tiling.split.loop_fission import split
from plant_core.normalize.pipeline import canonical
from plant_core.support.fork_join import limit_processes

FT = load_target("ft_m7002")


def test_what_is_chosen_does_not_depend_on_the_number_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nests = FEW_NESTS + 2
    loops = [f"for (int i = 0; i < {64 + 16 * k}; i++) y{k}[i] = a[i] * {k + 2}.f + a[i + {k}];" for k in range(nests)]
    arrays = ", ".join(f"float y{k}[160]" for k in range(nests))
    path = tmp_path / "k.c"
    path.write_text(f"void k(const float a[320], {arrays})\n{{\n" + "\n".join(loops) + "\n}\n")
    func = spaced(split(canonical(read_c(str(path)), reassoc=True)))
    found = []
    monkeypatch.setattr("plant_core.support.fork_join._limit", [])
    for processes in (1, 2):
        limit_processes(processes)
        chooser = Chooser(func, FT, Options(rewrite="off"))
        choices = chooser.choices("off")
        assert not any(search.made for search in chooser.searches)
        best = chooser.compiled("off", float("inf"))
        trials = [[(t.title, t.cycles, t.refused) for t in c.trials] for c in choices]
        found.append(([c.comps for c in choices], trials, chooser.told["off"], best.tiles, best.scheduled.lines))
    assert found[0] == found[1]
    assert len(found[0][0]) == nests
