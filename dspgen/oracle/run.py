"""Runs the user's C, as the host's compiler builds it, on NumPy arrays.

With `double=True` the same program runs with every float made a double: its results tell how far rounding alone takes
the float program from the exact one.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import re
import signal
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dspgen.errors import SourceError
from dspgen.frontend.desugar.loop_exits import STOPS
from dspgen.frontend.parse.error_codes import fail
from dspgen.frontend.parse.preprocess import Defines, Includes, define_flags, preprocess, read_source, run_compiler
from dspgen.frontend.read import call_order, gives_value, split_defines
from dspgen.frontend.scop.check_bounds import check_parameters
from plant_core.ir.c_semantics import NUMPY, is_float, shape_of
from plant_core.ir.func import Buf, DType, Func, ScalarParam
from plant_core.support.location import Loc, PlantError
from plant_core.support.shared_objects import loaded

Array = npt.NDArray[Any]
Inputs = Mapping[str, Array | int | float]

_FLAGS = ["-std=gnu11", "-w", "-O1", "-ffp-contract=off", "-fwrapv", "-fsigned-char", "-fno-strict-aliasing"]
# What the entry does not reach may use functions of files that are not here: it is dropped.
_FLAGS += ["-fvisibility=hidden", "-ffunction-sections", "-fdata-sections"]
_LINK = ["-shared", "-fPIC", "-Wl,--gc-sections", "-lm"]
_ENTRY = "dspgen_entry"
_GUARDED = "dspgen_guarded"  # tells the signal that ended the program, 0 for none
_GUARD = f"""#include <setjmp.h>
#include <signal.h>
extern void {_ENTRY}(void **arguments);
static sigjmp_buf before;
static void ended(int signal) {{ siglongjmp(before, signal); }}
__attribute__((visibility("default"))) int {_GUARDED}(void **arguments)
{{
  static const int signals[] = {{SIGFPE, SIGSEGV, SIGBUS, SIGILL}};
  struct sigaction ours = {{.sa_handler = ended}}, others[4];
  for (int k = 0; k < 4; k++) sigaction(signals[k], &ours, &others[k]);
  const int signal = sigsetjmp(before, 1);
  if (!signal) {_ENTRY}(arguments);
  for (int k = 0; k < 4; k++) sigaction(signals[k], &others[k], 0);
  return signal;
}}
"""
_STOP = re.compile(rf"\b({'|'.join(STOPS)})\s*\(")
_OUT_C = "static void *dspgen_out[5];\n"
_STOP_C = "__attribute__((noinline, noreturn)) void {name}_stopped({args}) {{ __builtin_longjmp(dspgen_out, 1); }}\n"
_USUAL = 1 << 20
"""How many bytes of local arrays are no trouble on any stack."""
_C_NAMES: dict[DType, str] = {
    "f32": "float",
    "f64": "double",
    "i8": "signed char",
    "i16": "short",
    "i32": "int",
    "i64": "long long",
    "u8": "unsigned char",
    "u16": "unsigned short",
    "u32": "unsigned int",
}
_NUMBER = r"(?<![\w.])(?:0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?\d+|(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?)"
_LIBRARY = "|".join(
    "sqrt cbrt fabs fmin fmax fma fmod fdim hypot exp exp2 expm1 log log2 log10 log1p pow sin cos tan asin acos atan "
    "atan2 sinh cosh tanh asinh acosh atanh erf erfc tgamma lgamma floor ceil round trunc rint nearbyint copysign "
    "remainder ldexp scalbn".split()
)
_SINGLE = re.compile(rf"\"(?:[^\"\\\n]|\\.)*\"|({_NUMBER})[fF]\b|\bfloat\b|\b({_LIBRARY})f\b")


@dataclass(frozen=True, slots=True)
class HostProgram:
    """The user's C program, built by the host's compiler; `double`: with every float made a double."""

    func: Func
    library: Path
    double: bool

    def __call__(self, inputs: Inputs) -> dict[str, Array]:
        """Return the final contents of every non-const array parameter; `inputs` has all parameters and isn't changed.

        In double, float arrays come back as float64. Raises SourceError where an integer parameter's value takes an
        access outside its array, or the program is ended by a signal; PlantError for a missing or misshapen input.
        """
        func = self.func
        scalars = _scalars(func, inputs)
        integers = {name: int(v) for name, v in scalars.items() if not isinstance(v, float | np.floating)}
        if problems := check_parameters(func, integers):
            raise SourceError(*problems)
        held: dict[str, Array] = {}
        for param in func.params:
            dtype = _held(param.dtype, self.double)
            given = inputs.get(param.name) if isinstance(param, Buf) else scalars[param.name]
            if given is None:
                raise PlantError(f"no input for the array '{param.name}'", loc=param.loc)
            array = np.array(given, dtype=dtype, order="C", ndmin=0)
            shape = shape_of(param, integers) if isinstance(param, Buf) else ()
            if array.shape != shape:
                raise PlantError(f"'{param.name}' has shape {shape}, its input has {array.shape}", loc=param.loc)
            held[param.name] = array
        pointers = (ctypes.c_void_p * max(len(held), 1))(*(a.ctypes.data for a in held.values()))
        ended: list[int] = []
        with loaded(self.library) as library:
            _on_large_stack(lambda: ended.append(library[_GUARDED](pointers)), _local_bytes(func, integers))
        if ended[0]:
            _ended_by(ended[0], func)
        return {p.name: held[p.name] for p in func.params if isinstance(p, Buf) and not p.const}


def host_program(
    path: str, func: Func, defines: Defines = (), *, double: bool = False, includes: Includes = ()
) -> HostProgram:
    """Build the C program by the host's compiler. Raises SourceError where the compiler refuses the file."""
    macros, fixed = split_defines(path, defines)
    folders = [flag for folder in includes for flag in ("-I", str(Path(folder).resolve()))]
    flags = [] if double else [*define_flags(macros), *folders]
    library = _build(_program(path, func, macros, fixed, includes, double), flags, path)
    return HostProgram(func, library, double)


def run_c(
    path: str, func: Func, inputs: Inputs, defines: Defines = (), *, double: bool = False, includes: Includes = ()
) -> dict[str, Array]:
    """Build the C program and run it once, see `HostProgram`."""
    return host_program(path, func, defines, double=double, includes=includes)(inputs)


def _ended_by(number: int, func: Func) -> NoReturn:
    known = {signal.SIGFPE: "divides an integer by zero", signal.SIGSEGV: "accesses memory that isn't there"}
    what = known.get(signal.Signals(number), f"is ended by {signal.Signals(number).name}")
    fail("DG523", f"the C program itself {what}, given these inputs", func.loc, "give other ones, by --inputs")


def _local_bytes(func: Func, integers: Mapping[str, int]) -> int:
    local = [b for b in func.bufs if b.kind != "param" and b.shape]
    return sum(8 * math.prod(shape_of(b, integers)) for b in local)


def _on_large_stack(call: Callable[[], object], local: int) -> None:
    """Runs the C function in a thread whose stack holds its local arrays. Raises MemoryError if there is none."""
    if local < _USUAL:
        call()
        return
    outer = threading.stack_size(-(-(2 * local + 8 * _USUAL) // 4096) * 4096)
    try:
        thread = threading.Thread(target=call, daemon=True)
        thread.start()
    except RuntimeError as error:
        raise MemoryError(f"no stack for {local} bytes of local arrays") from error
    finally:
        threading.stack_size(outer)
    thread.join()


def _scalars(func: Func, inputs: Inputs) -> dict[str, Any]:
    found = {}
    for param in func.params:
        if isinstance(param, ScalarParam):
            if param.name not in inputs:
                raise PlantError(f"no input for the parameter '{param.name}'", loc=param.loc)
            found[param.name] = NUMPY[param.dtype](inputs[param.name])
    return found


def _held(dtype: DType, double: bool) -> type[np.generic]:
    return NUMPY["f64" if double and is_float(dtype) else dtype]


def _program(path: str, func: Func, macros: Defines, fixed: Mapping[str, int], includes: Includes, double: bool) -> str:
    """C text: the user's file, and an entry that takes all arguments by address but those that are fixed."""
    arguments = []
    for position, param in enumerate(func.params):
        if isinstance(param, Buf):
            arguments.append(f"arguments[{position}]")
        else:
            name = "double" if double and is_float(param.dtype) else _C_NAMES[param.dtype]
            arguments.append(f"*({name} *)arguments[{position}]")
    value = ""
    if gives_value(func):
        last = func.params[-1]
        name = "double" if double and is_float(last.dtype) else _C_NAMES[last.dtype]
        value = f"*({name} *){arguments.pop()} = "
    if fixed:
        named = dict(zip((p.name for p in func.params), arguments, strict=False)) | {
            n: str(v) for n, v in fixed.items()
        }
        arguments = [named[name] for name in call_order(path, func.name, macros, includes)]
    # Through a pointer: gcc 12 takes some loops for functions without effect, and drops their calls.
    called = f"__typeof__(&{func.name}) volatile dspgen_called = {func.name};"
    done = f"{value}dspgen_called({', '.join(arguments)});"
    text = preprocess(path, macros, includes).text
    before, stops = "", ""
    if _STOP.search(text):
        # What ends the program ends the kernel: this process goes on.
        before = "".join(f"#define {name} {name}_stopped\n" for name in STOPS)
        stops = _OUT_C + "".join(_STOP_C.format(name=name, args=args) for name, args in STOPS.items())
        done = f"if (!__builtin_setjmp(dspgen_out)) {done}"
    call = f"{stops}void {_ENTRY}(void **arguments)\n{{\n  {called}\n  {done}\n}}\n"
    if double:
        return before + _in_double(text) + call
    escaped = str(Path(path).resolve()).replace("\\", "\\\\").replace('"', '\\"')
    return f'{before}#include "{escaped}"\n{call}'


def _in_double(text: str) -> str:
    def widened(match: re.Match[str]) -> str:
        if match.group(1):
            return match.group(1)
        if match.group(2):
            return match.group(2)
        return "double" if match.group() == "float" else match.group()

    kept = [line for line in text.splitlines() if not line.startswith("#")]
    return _SINGLE.sub(widened, "\n".join(kept)) + "\n"


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="dspgen-oracle-")


@cache
def _guard() -> Path:
    """The compiled code that outlives the program, whatever ends it."""
    source = Path(_folder().name) / "guard.c"
    source.write_text(_GUARD, encoding="utf-8")
    made = source.with_suffix(".o")
    result = run_compiler([*_FLAGS, "-fPIC", "-c", str(source), "-o", str(made)])
    if result.returncode:
        fail("DG002", f"the C compiler can't build what runs programs: {result.stderr.strip()[:1000]}", None)
    return made


_built: dict[str, Path] = {}


def _build(program: str, flags: list[str], path: str) -> Path:
    """The shared library of this program, built once as long as the user's file stays as it is."""
    text = "\0".join([program, *flags, read_source(path)])
    key = hashlib.sha256(text.encode()).hexdigest()[:24]
    if key not in _built:
        source = Path(_folder().name) / f"{key}.c"
        library = source.with_suffix(".so")
        source.write_text(program, encoding="utf-8")
        result = run_compiler([*_FLAGS, *flags, str(source), str(_guard()), "-o", str(library), *_LINK])
        if result.returncode:
            fail("DG003", f"the C compiler can't build the program: {result.stderr.strip()[:1000]}", Loc(path, 1))
        _built[key] = library
    return _built[key]
