"""The user's files: texts and NumPy archives, read and written with errors that name the file."""

from __future__ import annotations

import difflib
import errno
import io
import os
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dspgen.errors import DspgenError, Problem, SourceError
from plant_core.ir.c_semantics import shape_of
from plant_core.ir.func import Buf, Func, ScalarParam
from plant_core.support.location import PlantError

_DTYPES = {"f32": "float32", "f64": "float64", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"}
_DTYPES |= {"u8": "uint8", "u16": "uint16", "u32": "uint32"}
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_ARCHIVE = "it is no archive of NumPy arrays"


def read_arrays(path: str) -> dict[str, Any]:
    """The entries of an `.npz` file."""
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            raise DspgenError(
                Problem("DG503", f"--inputs {path} holds one array, without a name", remedy="write it with numpy.savez")
            )
        with found:
            return {name: found[name] for name in found.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else _NO_ARCHIVE
        problem = Problem("DG503", f"--inputs {path} can't be read: {why}", remedy="write it with numpy.savez")
        raise DspgenError(problem) from error


def write_arrays(path: str, arrays: Mapping[str, Any]) -> None:
    """An `.npz` file; the same arrays make the same bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, value in arrays.items():  # not numpy.savez, whose own parameters' names no array could have
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as entry:
                np.lib.format.write_array(entry, np.asarray(value), allow_pickle=False)
    write_files({Path(path): made.getbuffer()})


def keep(source: str, *paths: str | Path | None) -> None:
    """Raises DspgenError where one of the paths to be written is the file that is read."""
    for path in paths:
        if path is not None and Path(path).exists() and Path(source).exists() and Path(path).samefile(source):
            what = f"{path} would be written over: it is the file that is read"
            raise DspgenError(Problem("DG519", what, remedy="give another name or folder"))


def check_writable(*paths: str | Path | None) -> None:
    """Raise DspgenError (DG504) where a path can't become a file, before the work that makes its contents."""
    for path in (Path(p) for p in paths if p is not None):
        folder = next((p for p in path.parents if p.exists()), path.parent)
        if path.is_dir():
            raise _unwritten(path, errno.EISDIR)
        if not folder.is_dir():
            raise _unwritten(path, errno.ENOTDIR)
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise _unwritten(path, errno.EACCES)


def write_files(contents: Mapping[Path, str | bytes | memoryview]) -> None:
    """Write all files or none: each is written beside its place, and renamed when all are complete.

    Makes the folders that are missing. Raises DspgenError (DG504).
    """
    check_writable(*contents)
    beside: dict[Path, Path] = {}
    path = Path()
    try:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            data = content.encode("utf-8") if isinstance(content, str) else content
            if path.exists() and not path.is_file():  # a device or a pipe, which nothing can take the place of
                path.write_bytes(data)
                continue
            place = path.resolve()
            beside[place] = new = place.with_name(f".{place.name[:200]}.{os.getpid()}")
            new.write_bytes(data)
            if place.exists():
                new.chmod(stat.S_IMODE(place.stat().st_mode))
        for path, new in beside.items():
            new.replace(path)
    except OSError as error:
        raise _unwritten(path, error.errno or errno.EIO) from error
    finally:
        for new in beside.values():
            new.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    write_files({path: text})


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritten(path, error.errno or errno.EIO) from error


def _unwritten(path: Path, number: int) -> DspgenError:
    remedy = "make room there, or give another folder" if number in NO_ROOM else "give another folder"
    return DspgenError(Problem("DG504", f"{path} can't be written: {os.strerror(number)}", remedy=remedy))


def read_text(path: str) -> str:
    """The file's text; what is not UTF-8 is taken as GB 18030, and what is neither byte by byte."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SourceError(
            Problem("DG506", f"{path} can't be read: {error.strerror}", remedy="check the path")
        ) from error
    if b"\0" in data:
        raise SourceError(Problem("DG506", f"{path} can't be read: it is not text", remedy="check the path"))
    for encoding in ("utf-8", "gb18030"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return data.decode("latin-1")


def kernel_inputs(func: Func, arrays: Mapping[str, Any], fixed: Mapping[str, int]) -> dict[str, Any]:
    """The given values as their parameters' types; not each parameter need be given, but each value needs its own, or
    agrees with what `-D` fixed."""
    parameters = {p.name: p for p in func.params}
    integers = {n: int(a) for n, a in arrays.items() if n in parameters and a.shape == () and a.dtype.kind in "iu"}
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    for name, given in arrays.items():
        if name in fixed:
            if given.shape != () or given != fixed[name]:
                what = f"--inputs has another value of '{name}' than -D {name}={fixed[name]}"
                problems.append(Problem("DG508", what, func.loc, f"leave out '{name}' there, or -D {name}"))
            continue
        value = _fitted(parameters[name], given, integers) if name in parameters else _unknown(name, func)
        if isinstance(value, Problem):
            problems.append(value)
        else:
            values[name] = value
    if problems:
        raise DspgenError(*problems)
    return values


def _unknown(name: str, func: Func) -> Problem:
    names = [p.name for p in func.params]
    near = difflib.get_close_matches(name, names, 1)
    remedy = f"did you mean '{near[0]}'?" if near else f"the parameters are {', '.join(names)}"
    return Problem("DG508", f"--inputs has '{name}', which is no parameter of {func.name}", func.loc, remedy)


def _fitted(parameter: Buf | ScalarParam, given: Any, integers: Mapping[str, int]) -> Any:
    """The value as the parameter's type, or what is wrong with it. Integers must keep their values."""
    try:
        shape = shape_of(parameter, integers) if isinstance(parameter, Buf) else ()
    except PlantError as error:
        return Problem("DG508", f"--inputs has '{parameter.name}', but {error.message}", parameter.loc, error.remedy)
    if given.shape != shape:
        what = f"'{parameter.name}' of shape {given.shape}; the parameter's is {shape}"
        return Problem("DG508", f"--inputs has {what}", parameter.loc)
    wanted = np.dtype(_DTYPES[parameter.dtype])
    floats = wanted.kind == "f"
    if given.dtype.kind not in ("iuf" if floats else "iu"):
        what = f"'{parameter.name}' of type {given.dtype}; the parameter's is {wanted}"
        return Problem("DG508", f"--inputs has {what}", parameter.loc)
    value = given.astype(wanted)
    if not floats and not np.array_equal(value, given):
        return Problem("DG508", f"--inputs has values of '{parameter.name}' outside {wanted}", parameter.loc)
    return value if isinstance(parameter, Buf) else value.item()
