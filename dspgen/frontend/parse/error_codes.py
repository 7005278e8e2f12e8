"""The front end's error numbers, what each means, and the one way to raise them."""

from __future__ import annotations

from typing import NoReturn

from dspgen.errors import Problem, SourceError
from plant_core.support.location import Loc

CODES: dict[str, str] = {
    "DG001": "the file, or a folder of headers, can't be read",
    "DG002": "there is no C compiler on this computer",
    "DG003": "the C compiler refuses the file",
    "DG004": "syntax that this tool can't read",
    "DG005": "which function is meant is unclear, or there is none",
    "DG006": "a type that isn't supported",
    "DG007": "an array whose extent isn't known, or is too large",
    "DG008": "a statement that isn't supported",
    "DG009": "a for loop that isn't in counted form, or too many loops inside each other",
    "DG010": "a loop bound that isn't affine",
    "DG011": "a subscript that isn't affine",
    "DG012": "an access outside its array",
    "DG013": "an expression that isn't supported",
    "DG014": "a call of a function that isn't known",
    "DG015": "a loop iterator that is assigned in its loop, or read after it",
    "DG017": "unsigned or narrow arithmetic that may wrap where an exact value is needed",
    "DG018": "an initialiser that isn't supported",
    "DG019": "#pragma scop and #pragma endscop don't match, or are misplaced",
    "DG020": "an array used with the wrong number of subscripts",
    "DG021": "an assignment to a constant",
    "DG022": "a name that can't be used",
    "DG023": "an @input line that can't be evaluated",
}


def fail(code: str, message: str, loc: Loc | None, remedy: str = "") -> NoReturn:
    raise SourceError(Problem(code, message, loc, remedy))
