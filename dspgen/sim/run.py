"""Runs assembly text on a target: the simulator's front door."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from dspgen.errors import Problem, SourceError
from dspgen.sim.cgen import native
from dspgen.sim.cgen.control_slice import control
from dspgen.sim.cgen.static_states import TooManyStates
from dspgen.sim.ir.program import Assembled, Code
from dspgen.sim.ir.registers import RegisterFile
from dspgen.sim.lowering.load import Argument, Loaded, load
from dspgen.sim.machine.interpreter import Interrupted, Machine, Outcome
from dspgen.sim.missing_arguments import unpassed
from dspgen.sim.text.parse import assemble
from dspgen.sim.text_warnings import lucky
from dspgen.target.isa.model import Target
from plant_core.support.location import Loc
from plant_core.support.memoize import few_by_identity

Array = Any
Engine = Literal["auto", "python", "native"]
UNNAMED = "<text>"
CYCLE_LIMIT = 20_000_000_000
PYTHON_CYCLE_LIMIT = 50_000_000
# What the Python machine may take before native code is made, which takes longer for longer programs.
TRIAL_CYCLES = 3000
CONTROL_CYCLES = 200_000  # as many as the Python machine runs of what decides control flow alone
TRIAL_ROUNDS = 15  # times the program's packets


@dataclass(frozen=True, slots=True)
class SimResult:
    """What a run did. `idle` are the cycles spent in no-operations, `stalls` those in which an interlock held a packet
    back; `unit_busy` shares of the cycles by unit member.

    `outputs` has every array argument's final contents; `result` is the result register as a signed integer and
    `result_bits` the 64 bits of its pair. A no-operation counts as a packet but not as an instruction.
    """

    cycles: int
    packets: int
    instructions: int
    idle: int
    unit_busy: dict[str, float]
    outputs: dict[str, Array]
    result: int
    result_bits: int
    warnings: tuple[str, ...]
    engine: str
    registers: dict[str, Array] = field(default_factory=dict)
    stalls: int = 0

    @property
    def result_f32(self) -> float:
        return float(np.uint32(self.result_bits & 0xFFFFFFFF).view(np.float32))

    @property
    def result_f64(self) -> float:
        return float(np.uint64(self.result_bits).view(np.float64))


def simulate(
    program: str | Assembled,
    target: Target,
    *,
    function: str | None = None,
    arguments: Sequence[tuple[str, Argument]] = (),
    placement: Mapping[str, str] | None = None,
    strict: bool = True,
    engine: Engine = "auto",
    trace: Callable[[str], None] | None = None,
    limit: int | None = None,
    file: str = UNNAMED,
    cache_dir: str | None = None,
    stack: int = 0,
    readable: Mapping[str, tuple[int, ...]] | None = None,
) -> SimResult:
    """Calls `function` (default: the first `.global` label) and runs it to its return.

    `arguments` are (name, value) in calling order: an array is placed in memory (in `placement[name]`, else on chip
    where it fits) and passed as a pointer; a float is passed as single unless it is a numpy.float64, an int as a word
    unless it is a numpy 64-bit integer. `strict`: reading a register never written and a misaligned address are
    errors, else warnings, as is what works by luck. `readable`: how many bytes before and behind an array may be read,
    where accesses outside of arrays, of the text's data and of the stack are such errors, too. `stack`: bytes below the
    stack pointers that are kept free of arrays, at least; the function may use no more then, where there are any.
    Raises SourceError (DG4xx) for text that can't be assembled and for what the machine would refuse.
    """
    assembled = program if isinstance(program, Assembled) else assembled_once(program, target, file)
    top = limit if limit is not None else (PYTHON_CYCLE_LIMIT if engine == "python" else CYCLE_LIMIT)

    def fresh() -> Loaded:
        return load(
            assembled,
            target,
            function=function,
            arguments=arguments,
            placement=placement or {},
            strict=strict,
            limit=top,
            stack=stack,
            readable=readable,
        )

    loaded = fresh()
    delay = target.pipeline.branch_delay
    extra: list[str] = []
    try:
        if engine == "native":
            outcome, used = _native(loaded, assembled, target, cache_dir), "native"
        elif engine == "python" or trace is not None:
            outcome, used = Machine(loaded.code, loaded.memories, loaded.start, trace).run(delay), "python"
        else:
            try:
                trial = max(TRIAL_CYCLES, TRIAL_ROUNDS * len(loaded.code.slots))
                outcome = Machine(loaded.code, loaded.memories, loaded.start).run(delay, trial)
                used = "python"
            except Interrupted:
                loaded = fresh()
                outcome, used = _native_or_python(loaded, target, cache_dir, extra)
    except SourceError as fault:
        if not strict and (why := unpassed(loaded, target)):
            fault.problems = tuple(replace(p, remedy=p.remedy or why) for p in fault.problems)
        raise
    if not strict:
        extra += lucky(loaded, outcome, target)
    return _result(loaded, assembled, target, outcome, used, extra)


@few_by_identity
def assembled_once(text: str, target: Target, file: str) -> Assembled:
    """Text is read once for all runs."""
    return assemble(text, target, file)


def cycles_only(
    program: Assembled,
    target: Target,
    *,
    function: str,
    arguments: Sequence[tuple[str, Argument]],
    stack: int,
) -> int | None:
    """The cycles that `simulate` tells, at the cost of what decides control flow alone: nothing stored elsewhere than
    on the stack has a part in it, is the guess. None where it can't be told apart, or takes many cycles, or the guess
    is wrong, so that it fails.
    """
    loaded = load(
        program,
        target,
        function=function,
        arguments=arguments,
        placement={},
        strict=True,
        limit=PYTHON_CYCLE_LIMIT,
        stack=stack,
    )
    code = control(loaded.code, RegisterFile(target).cell_of(target.abi.scalar_stack))
    if code is None:
        return None
    try:
        return Machine(code, loaded.memories, loaded.start).run(target.pipeline.branch_delay, CONTROL_CYCLES).cycles
    except (Interrupted, SourceError):
        return None


def _native_or_python(
    loaded: Loaded, target: Target, cache_dir: str | None, extra: list[str]
) -> tuple[Outcome, Literal["native", "python"]]:
    """The native machine where it can run the program, else the Python machine with a word about why."""
    if native.compiler() is None:
        extra.append("no C compiler is at hand: the Python machine runs, which is slow")
    else:
        try:
            return native.run(loaded, target, cache_dir), "native"
        except TooManyStates:
            extra.append("the program has too many paths for native code: the Python machine runs, which is slow")
    machine = Machine(loaded.code, loaded.memories, loaded.start)
    return machine.run(target.pipeline.branch_delay), "python"


def _native(loaded: Loaded, program: Assembled, target: Target, cache_dir: str | None) -> Outcome:
    try:
        return native.run(loaded, target, cache_dir)
    except TooManyStates as error:
        remedy = "run it on the Python machine"
        problem = Problem(
            "DG441", "the program has too many paths for the native simulator", Loc(program.file, 1), remedy
        )
        raise SourceError(problem) from error


def _result(
    loaded: Loaded, program: Assembled, target: Target, outcome: Outcome, engine: str, extra: list[str]
) -> SimResult:
    code = loaded.code
    instructions, busy = _totals(code, outcome.visits, target)
    outputs = {}
    for name, address, value in loaded.places:
        raw = loaded.memories.read(address, value.nbytes) or b""
        outputs[name] = np.frombuffer(raw, dtype=value.dtype).reshape(value.shape).copy()
    bits = _result_bits(target, outcome.registers)
    width = target.register_class(target.abi.scalar_class).bits
    low = bits & ((1 << width) - 1)
    return SimResult(
        cycles=outcome.cycles,
        packets=sum(outcome.visits),
        instructions=instructions,
        idle=outcome.idle,
        unit_busy={u: b / max(outcome.cycles, 1) for u, b in busy.items()},
        outputs=outputs,
        result=low - (1 << width) if low >> (width - 1) else low,
        result_bits=bits,
        warnings=(*program.warnings, *outcome.warnings, *extra),
        engine=engine,
        registers={c.name: outcome.registers[c.index] for c in code.cells},
        stalls=outcome.stalls,
    )


def _totals(code: Code, visits: Sequence[int], target: Target) -> tuple[int, dict[str, int]]:
    busy = dict.fromkeys(target.unit_members, 0)
    instructions = 0
    for slot, count in zip(code.slots, visits, strict=True):
        instructions += count * len(slot.ops)
        for op in slot.ops:
            busy[op.unit] = busy.get(op.unit, 0) + count * op.busy
    return instructions, busy


def _result_bits(target: Target, registers: Sequence[Array]) -> int:
    """The result register, with its pair's high half above it."""
    file, abi = RegisterFile(target), target.abi
    wide = target.register_class(abi.wide_class)
    place = file.place(abi.result)
    if wide.pair_of is not None and (names := target.register_class(wide.pair_of).names) and abi.result in names:
        place = file.place(wide.names[names.index(abi.result) // 2], (wide.name,))
    value = shift = 0
    for cell in place.cells if place else ():
        value |= int(registers[cell][0]) << shift
        shift += file.cells[cell].storage
    return value
