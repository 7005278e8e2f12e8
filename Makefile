PYTHON ?= $(shell command -v python3.11 || command -v python3)
JOBS   ?= 2
MINUTES ?= 10
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
CODE   := dspgen plant_core backends tests bench examples

.PHONY: help demo bench test test-tools test-hexagon nightly fuzz lint format docs clean

help:            ## this list
	@sed -n 's/^\([a-z-]*\): .*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 22

demo: $(STAMP)   ## compile, simulate and verify every example; ends in a table
	@$(BIN)/dspgen run examples/*.c --isa ft_m7002

bench: $(STAMP)  ## the kernels of PolyBench on this computer, against other compilers; minutes
	@$(BIN)/dspgen bench cpu

test: lint       ## the checks and tests that every change must pass; without their tools some tests are skipped
	$(BIN)/pytest -q -n $(JOBS)

test-tools: $(STAMP) ## only the tests that need tools: clang-19, lld-19, llvm-19, qemu-user, the extra rivals
	CI=true $(BIN)/pytest -q -n $(JOBS) -m "needs_tool and not slow"

test-hexagon: $(STAMP) ## the tests that need the tools of isa/hexagon_v66.toml, slow ones as well
	CI=true $(BIN)/pytest -q -n $(JOBS) -m needs_tool tests/end_to_end/test_hexagon*.py tests/unit/test_conditions.py

nightly: lint    ## the slow tests as well, and many more random programs
	$(BIN)/pytest -q -n $(JOBS) -m "slow or not slow" --hypothesis-profile=nightly

fuzz: $(STAMP)   ## random programs on all machines for MINUTES, by SEED (the date); what fails is kept in build/fuzz
	@$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --jobs $(JOBS) $(if $(SEED),--seed $(SEED))

lint: $(STAMP)   ## formatting, lint and types
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy

format: $(STAMP) ## put the sources in the house's format
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

docs: $(STAMP)   ## write anew what docs/isa.md takes from the sources
	@$(BIN)/python -m dspgen.target.reference docs/isa.md

clean:           ## remove the environment and every build output
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@
