"""The user's own C as the judge of every result: inputs for it, its run by the host's compiler, the comparison."""

from dspgen.oracle.compare import Verdict, compare
from dspgen.oracle.defaults import default_inputs
from dspgen.oracle.inputs import random_inputs
from dspgen.oracle.reference import Reference, reference
from dspgen.oracle.run import host_program, run_c

__all__ = [
    "Reference",
    "Verdict",
    "compare",
    "default_inputs",
    "host_program",
    "random_inputs",
    "reference",
    "run_c",
]
