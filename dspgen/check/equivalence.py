"""Checks packets against the linear text that they were made of, knowing the ISA file and nothing of the schedulers.

Both texts run on the same terms (`terms.py`): the linear one in order, the packets cycle by cycle, with sizes and
addresses as given and all data symbolic. At the end every byte of memory, the result and the caller's registers must be
the same term. So a value that is read too early, too late, or from a wrong register shows, whatever the data, unless it
is the same computation; and a register that is read while a newer value of it is in flight is right exactly where the
linear text has the older value. Units, ports, results that land together and branches in delay slots are also judged
on every path that control may take, by `rules.py`.

The linear text is what `--emit lasm` prints. It names each value and leaves open nothing but place and time, which are
all that a schedule decides; notes in the packets' text would be claims of the scheduler that is to be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dspgen.check.linear import LinearCode, read_linear
from dspgen.check.machine import State, TooLong, ready_ops, run_in_order
from dspgen.check.packets import Packets
from dspgen.check.rules import on_all_paths
from dspgen.check.terms import BYTES, UNKNOWN, Terms, first_byte
from dspgen.errors import Problem, SourceError
from dspgen.sim.cgen.static_states import TooManyStates
from dspgen.sim.ir.program import Assembled, Code
from dspgen.sim.ir.registers import RegisterFile
from dspgen.sim.lowering.load import Argument, Loaded, entry_stack, load, places_of
from dspgen.sim.text.parse import assemble
from dspgen.target.isa.model import Target
from dspgen.target.query.arguments import entry_places
from plant_core.support.location import Loc
from plant_core.support.memoize import few_by_identity

STEPS = 1_000_000  # of the linear text
SHOWN = 5
WORD_BYTES = 4
OF_THE_CALLER = 0x9E3779B97F4A7C15 >> 28  # odd, so that its multiples differ in every width


@dataclass(frozen=True, slots=True)
class Checked:
    """`problems` is empty where the packets are right. `not_run` are lines of packets that this run didn't reach, whose
    values therefore weren't compared; `all_paths` is False where there were too many to look at."""

    problems: tuple[Problem, ...]
    steps: int
    cycles: int
    not_run: tuple[int, ...]
    all_paths: bool = True


@dataclass(frozen=True, slots=True)
class Reference:
    """What the linear text makes of some arguments: what any number of schedules of it can be compared with."""

    linear: LinearCode
    state: State
    steps: int
    arguments: tuple[tuple[str, Argument], ...]
    stack: int


def check(
    linear: str,
    packets: str,
    target: Target,
    arguments: Sequence[tuple[str, Argument]],
    *,
    stack: int = 0,
    files: tuple[str, str] = ("<linear>", "<packets>"),
) -> Checked:
    """Compares both texts on `arguments`, which are as `dspgen.sim.run.simulate` has them.

    Raises SourceError where the linear text can't be read, or runs for more than a million instructions.
    """
    try:
        program = assemble(packets, target, files[1])
    except SourceError as refusal:
        return Checked(refusal.problems, 0, 0, ())
    try:
        wanted = reference(linear, program, target, arguments, stack=stack, file=files[0])
    except TooLong:
        problem = Problem("DG456", f"the linear text still runs after {STEPS} instructions", Loc(files[0], 1))
        raise SourceError(problem) from None
    return against(wanted, program, target)


def reference(
    linear: str,
    program: Assembled,
    target: Target,
    arguments: Sequence[tuple[str, Argument]],
    *,
    stack: int = 0,
    file: str = "<linear>",
    steps: int = STEPS,
) -> Reference:
    """Runs the linear text; raises TooLong after so many steps. `program` tells what data lies in memory besides the
    arguments."""
    code = _linear(linear, target, file)
    loaded = _loaded(program, target, arguments, stack)

    terms = Terms(_initial(loaded))
    start = _entry_terms(loaded, target, terms)
    registers = [*start, *[UNKNOWN] * (len(code.cells) - len(start))]
    for cells, place in zip(code.inputs, entry_places(target, places_of(target, arguments)), strict=False):
        if isinstance(place, int):
            for k, to in enumerate(cells):
                at = entry_stack(target) + place + WORD_BYTES * k
                registers[to] = terms.of_bytes(tuple(first_byte(at + j) for j in range(WORD_BYTES)))
        else:
            for to, source in zip(cells, _argument_cells(target, place), strict=False):
                registers[to] = start[source]
    state = State(terms, code.cells, registers, code.mask, _free_stack(target, stack), target.dma)
    taken = run_in_order(state, ready_ops(code.ops), steps)
    return Reference(code, state, taken, tuple(arguments), stack)


@few_by_identity
def _linear(text: str, target: Target, file: str) -> LinearCode:
    """Text is read once for all arguments that are tried."""
    return read_linear(text, target, file)


@few_by_identity
def _on_all_paths(code: Code, entry: int, delay: int) -> list[Problem]:
    return on_all_paths(code, entry, delay)


def entered(
    program: Assembled, target: Target, arguments: Sequence[tuple[str, Argument]], *, stack: int = 0
) -> tuple[Loaded, State]:
    """The packets of `program`, and the machine as their function is called."""
    loaded = _loaded(program, target, arguments, stack)
    terms = Terms(_initial(loaded))
    registers = _entry_terms(loaded, target, terms)
    return loaded, State(
        terms, loaded.code.cells, registers, loaded.code.mask_cell, _free_stack(target, stack), target.dma
    )


def against(wanted: Reference, program: Assembled, target: Target) -> Checked:
    """Compares the packets of `program` with what the linear text computed."""
    loaded = _loaded(program, target, wanted.arguments, wanted.stack)
    code, entry, delay = loaded.code, loaded.start.entry, target.pipeline.branch_delay
    problems, all_paths = [], True
    try:
        problems = _on_all_paths(code, entry, delay)
    except TooManyStates:
        all_paths = False
    if problems:
        return Checked(tuple(problems[:SHOWN]), wanted.steps, 0, ())
    registers = _entry_terms(loaded, target, wanted.state.terms)
    state = State(wanted.state.terms, code.cells, list(registers), code.mask_cell, wanted.state.unset, target.dma)
    run = Packets(state, code, delay, loaded.start.return_address)
    run.run(entry, 64 * wanted.steps + 4096, loaded.memories)
    problems = run.problems
    if not problems:
        problems = [*memory_differences(wanted.state, state), *_result(wanted, state, target)]
        problems += [*_kept(state, registers, target), *run.late]
    not_run = sorted({slot.loc.line for k, slot in enumerate(code.slots) if k not in run.visited})
    return Checked(tuple(problems[:SHOWN]), wanted.steps, run.time, tuple(not_run), all_paths)


def _loaded(program: Assembled, target: Target, arguments: Sequence[tuple[str, Argument]], stack: int) -> Loaded:
    return load(
        program, target, function=None, arguments=arguments, placement={}, strict=True, limit=0, stack=stack
    )  # fmt: skip


def _initial(loaded: Loaded) -> Callable[[int], int]:
    def byte(address: int) -> int:
        found = loaded.memories.find(address, 1, None)
        return int(found[0].bytes[found[1]]) if found is not None else 0

    return byte


def _entry_terms(loaded: Loaded, target: Target, terms: Terms) -> list[int]:
    """What registers hold at entry. The caller's own are numbers that nothing else makes, so that one that is put by in
    parts is known again."""
    file = RegisterFile(target)
    saved = {cell for name in target.abi.callee_saved if (place := file.place(name)) for cell in place.cells}
    registers = []
    for cell, value in zip(loaded.code.cells, loaded.start.registers, strict=True):
        if cell.index not in loaded.start.written or cell.lanes:
            registers.append(UNKNOWN)
        elif cell.index in saved and not value.any():
            registers.append(terms.constant(OF_THE_CALLER * (cell.index + 1) & ((1 << cell.bits) - 1)))
        else:
            registers.append(terms.constant(int(value[0])))
    return registers


def _argument_cells(target: Target, register: str) -> tuple[int, ...]:
    """The cell of an argument register, and of the other half of its pair where it can be one's low half."""
    file = RegisterFile(target)
    cells = file.place(register)
    for cls in target.registers:
        if cls.pair_of is not None and register in (names := target.register_class(cls.pair_of).names[::2]):
            place = file.place(cls.names[names.index(register)], (cls.name,))
            return place.cells if place else ()
    return cells.cells if cells else ()


def _free_stack(target: Target, stack: int) -> range:
    """The addresses from where arrays may end to the end of the stack's memory, or to where arguments lie in it."""
    memory = target.memory(target.abi.stack_memory)
    room = memory.size // 16
    end = memory.base + memory.size
    return range(end - room - max(room, stack), end if target.abi.stack_arguments is None else entry_stack(target))


def memory_differences(wanted: State, found: State) -> list[Problem]:
    """Bytes that end as another term, told once for each instruction that stored them last; the stack is free."""
    problems: dict[str, Problem] = {}
    for address in sorted({address for address, _ in wanted.memory.items() ^ found.memory.items()}):
        if address in wanted.unset:
            continue
        want, got = (s.memory.get(address, first_byte(address)) for s in (wanted, found))
        if want != got:
            problem = _difference(wanted, found, want // BYTES, got // BYTES, f"the byte at {address:#x}")
            problems.setdefault(str(problem.loc), problem)
    return list(problems.values())


def _difference(wanted: State, found: State, want: int, got: int, what: str) -> Problem:
    """Follows two terms down to where they part. A value there that the linear text has too is the wrong one for its
    reader; one that it hasn't was made wrongly."""
    terms, reader = found.terms, None
    while want > 0 and got > 0:
        a, b = terms.keys[want], terms.keys[got]
        apart = [(x, y) for x, y in zip(a[2:], b[2:], strict=False) if x != y]
        if a[:2] != b[:2] or a[0] != "apply" or len(a) != len(b) or not apart:
            break
        reader = found.makers.get(got, reader)
        want, got = apart[0]
    made, meant = found.makers.get(got), wanted.makers.get(want)
    text = f"{what} is not what the linear text stores there"
    if reader is not None and made is not None and got in wanted.makers:
        text += f": line {reader.line} works with what line {made.line} made"
        made = reader
    if meant is not None:
        text += f", in place of the result of line {meant.line} of the linear text"
    return Problem("DG450", text, made or reader)


def _result(wanted: Reference, found: State, target: Target) -> list[Problem]:
    problems = []
    for cells in wanted.linear.outputs:
        for cell, place in zip(cells, _argument_cells(target, target.abi.result), strict=False):
            want, got = wanted.state.registers[cell], found.registers[place]
            if want != got:
                problems.append(_difference(wanted.state, found, want, got, f"{target.abi.result} at the return"))
    return problems


def _kept(state: State, entered: Sequence[int], target: Target) -> list[Problem]:
    """The registers that the caller finds as they were: those it may rely on, the stacks and the lane mask."""
    file, abi = RegisterFile(target), target.abi
    names = dict.fromkeys((*abi.callee_saved, abi.scalar_stack, abi.vector_stack, *abi.entry_values))
    problems = []
    for name in names:
        place = file.place(name)
        for cell in place.cells if place else ():
            if state.registers[cell] != entered[cell]:
                text = f"{name} is not at the return what it was at entry"
                problems.append(Problem("DG455", text, state.writers.get(cell)))
    return problems
