PYTHON ?= $(shell command -v python3.11 || command -v python3)
JOBS   ?= 2
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
CODE   := dspgen plant_core backends tests bench examples

.PHONY: help demo bench test nightly lint format clean

help:            ## this list
	@sed -n 's/^\([a-z]*\): .*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

demo: $(STAMP)   ## compile, simulate and verify every example; ends in a table
	@$(BIN)/dspgen run examples/*.c --isa ft_m7002

bench: $(STAMP)  ## the kernels of PolyBench on this computer, against other compilers; minutes
	@$(BIN)/dspgen bench cpu

test: lint       ## the checks and tests that every change must pass
	$(BIN)/pytest -q -n $(JOBS)

nightly: lint    ## the slow tests as well, and many more random programs
	$(BIN)/pytest -q -n $(JOBS) -m "slow or not slow" --hypothesis-profile=nightly

lint: $(STAMP)   ## formatting, lint and types
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy

format: $(STAMP) ## put the sources in the house's format
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

clean:           ## remove the environment and every build output
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@
