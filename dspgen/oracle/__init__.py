"""The user's own C as the judge of every result: inputs for it, its run by the host's compiler, the comparison."""

from dspgen.oracle.compare import compare
from dspgen.oracle.defaults import default_inputs
from dspgen.oracle.inputs import random_inputs
from dspgen.oracle.run import run_c

__all__ = ["compare", "default_inputs", "random_inputs", "run_c"]
