"""C++ identifiers: the user's own names, except where C++ or the emitted program already has them."""

from __future__ import annotations

import re

from plant_core.ir.func import Func

_KEYWORDS = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
    asm typeof linux unix i386 main aligned_alloc free memcpy size_t ptrdiff_t NULL EXIT_SUCCESS EXIT_FAILURE
    RAND_MAX MB_CUR_MAX""".split()
)
_HELPERS = frozenset(
    """index_min index_max floordiv floormod splat load store least greatest magnitude root reversed widened
    converted truth allocate elements""".split()
)
_MATH = frozenset(
    """acos asin atan atan2 cbrt ceil copysign cos cosh erf exp exp2 expm1 fabs floor fma fmod hypot log log10 log1p
    log2 lgamma tgamma nearbyint pow rint round sin sinh sqrt tan tanh trunc fmin fmax abs labs abort malloc
    calloc realloc exit atoi rand qsort div ldiv""".split()
)
_TYPE = re.compile(r"[fiu]\d+x\d+\w*|reduce_\w+|plant_\w+|omp_\w+|__\w+|_[A-Z]\w*")


def identifier(name: str) -> str:
    """`name`, or with an underscore after it where C++ reserves it or the emitted helpers use it."""
    taken = name in _KEYWORDS or name in _HELPERS or _is_math(name) or _TYPE.fullmatch(name) is not None
    return f"{name}_" if taken or _renamed(name) else name


def _is_math(name: str) -> bool:
    return name in _MATH or (name.endswith("f") and name[:-1] in _MATH)


def _renamed(name: str) -> bool:
    """Whether `name` is what another name becomes: then it moves on as well, so that the two stay apart."""
    return name.endswith("_") and identifier(name[:-1]) == name


def symbol(func: Func) -> str:
    """The exported name of the function's entry."""
    return identifier(func.name)


class Fresh:
    """Names for temporaries, apart from every name of the program."""

    def __init__(self, used: set[str]) -> None:
        self._used = set(used)
        self._next: dict[str, int] = {}

    def __call__(self, stem: str) -> str:
        number = self._next.get(stem, 0)
        while f"{stem}{number}" in self._used or identifier(f"{stem}{number}") != f"{stem}{number}":
            number += 1
        self._next[stem] = number + 1
        self._used.add(f"{stem}{number}")
        return f"{stem}{number}"
