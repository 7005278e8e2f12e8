"""Linear programs, some of whose unknowns are whole numbers, solved by HiGHS."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_ALIKE = 1e-6  # objectives that are apart by less, relatively, are one


@dataclass(frozen=True, slots=True)
class Solution:
    """A value for each unknown; `proven`: no other is better, but for the relative gap that was allowed."""

    values: list[float]
    proven: bool


@dataclass(slots=True)
class LinearProgram:
    """The least sum of costs over unknowns from `lower` to `upper`, with rows of factors between two bounds each."""

    cost: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])  # of each row in the two lists that follow, and their length
    columns: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)

    def variable(self, cost: float, upper: float, *, integer: bool = False, lower: float = 0.0) -> int:
        """A new unknown's number."""
        self.cost.append(cost)
        self.lower.append(lower)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.cost) - 1

    def row(self, entries: Mapping[int, float], lower: float, upper: float = math.inf) -> None:
        """The sum of the factors, by unknown, times the unknowns lies between the bounds."""
        self.columns.extend(entries)
        self.factors.extend(entries.values())
        self.starts.append(len(self.columns))
        self.row_lower.append(lower)
        self.row_upper.append(upper)

    def solve(
        self, branches: int = 0, gap: float = 0.0, *, start: Sequence[float] | None = None, feasible: bool = False
    ) -> Solution | None:
        """The least solution; None without the library or where none is found.

        Where there are whole unknowns: at most so many `branches`, and a relative `gap` to what may be the least.
        `start`: a solution that is known. `feasible`: it is known that there is one.
        """
        try:
            import highspy
        except ImportError:
            return None
        solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        whole = any(self.integer)
        if whole:
            solver.setOptionValue("random_seed", 1)
            solver.setOptionValue("mip_max_nodes", branches)
            solver.setOptionValue("mip_rel_gap", gap)
            # Where there are few branches, restarts and trial branches take most of the time and seldom find anything.
            solver.setOptionValue("mip_allow_restart", False)
            solver.setOptionValue("mip_pscost_minreliable", 0)
        solver.passModel(self._model(highspy))
        if start is not None:
            known = highspy.HighsSolution()
            known.col_value = list(start)
            solver.setSolution(known)
            # There is a solution, and a good one.
            solver.setOptionValue("mip_heuristic_run_feasibility_jump", False)
        solver.run()
        if feasible and solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            # Presolving is at times wrong about rows with big constants.
            solver.clearSolver()
            solver.setOptionValue("presolve", "off")
            solver.run()
        elif start is not None and not self._agrees(solver):
            # HiGHS 1.16.0 gives the start back where presolving alone finds a better solution.
            solver.clearSolver()
            solver.run()
        if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return None
        proven = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return Solution(list(solver.getSolution().col_value), proven)

    def _agrees(self, solver: Any) -> bool:
        """Whether the solution costs what the solver says that it does."""
        values, said = solver.getSolution().col_value, solver.getInfo().objective_function_value
        return bool(values) and math.isclose(np.dot(self.cost, values), said, rel_tol=_ALIKE, abs_tol=_ALIKE)

    def _model(self, highspy: Any) -> Any:
        lp = highspy.HighsLp()
        lp.num_col_ = len(self.cost)
        lp.num_row_ = len(self.row_lower)
        lp.col_cost_ = np.array(self.cost)
        lp.col_lower_ = np.array(self.lower)
        lp.col_upper_ = np.array(self.upper)
        lp.row_lower_ = np.array(self.row_lower)
        lp.row_upper_ = np.array(self.row_upper)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array(self.starts, dtype=np.int32)
        lp.a_matrix_.index_ = np.array(self.columns, dtype=np.int32)
        lp.a_matrix_.value_ = np.array(self.factors)
        if any(self.integer):
            kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
            lp.integrality_ = [kinds[i] for i in self.integer]
        return lp
