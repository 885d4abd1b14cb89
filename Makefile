# make dev     .venv, with Triton 3.6.0 and all tools: enough to work on a change
# make demo    what Tawa does to real kernels: compiles them, prints a report; on a Hopper GPU also runs and times them
# make test    what a change must pass: the tests on Triton 3.6.0, with samples of large sets of cases, and the contract
# make contract  what depends on the version of Triton, on the other versions; make contract-3.7: on one of them
# make check   lint, format, types, import rules, documentation links
# make nightly all tests with every case, example and mutant, in random order; those that compile, on every version
# make fuzz    the property tests once more, with fresh random examples
# make gpu     a few kernels on this machine's Hopper or Blackwell GPU, compared and timed (PYTHON needs torch and Triton)
# make next    the contract on the newest Triton and PyTorch of the package index; prints what changed
# make release builds sdist and wheel, checks them, and tries them on Python 3.11 to 3.13 (docs/versions.md)
# make docs    the documentation as a site under build/docs
#
# Each sets itself up on first use: .venv (Triton 3.6.0 and all tools), .venv-3.7 and so on (another Triton, and for all
# else the packages of .venv).
# PYTHON=python3.12 picks the interpreter, WORKERS=8 the number of test processes.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
WORKERS ?= 2
# Python keeps what it has compiled, also where the environment says otherwise: pip compiles nothing here, and the tests
# start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=
# Neighbours share kernels that a process compiles once: each takes a stretch of the list, and who is done helps out.
SPREAD := -n $(WORKERS) --dist worksteal
# uv sets up in a tenth of pip's time. It does not read pip's settings: where it finds no packages, pip may.
PIP_INSTALL := install --quiet --disable-pip-version-check --no-compile
INSTALL_IN = { .venv/bin/uv pip install --quiet --system-certs --python $(1)/bin/python $(2) || .venv/bin/python -m pip --python $(1)/bin/python $(PIP_INSTALL) $(2); }

# The other versions of Triton that are supported, and where the tests with the mark `contract` are.
RELEASES := 3.7.1 3.8.0 3.9.0
OTHERS := $(basename $(RELEASES))
CONTRACT_TESTS := $(shell grep -rl 'mark\.contract' tests --include='test_*.py')
# The tests that compile through Triton.
COMPILE_TESTS := $(addprefix tests/,bridge runtime ops/kernels matrix cli demo roundtrip rings)

.PHONY: dev demo setup test test-3.6 contract $(OTHERS:%=contract-%) nightly every-3.6 $(OTHERS:%=every-%) fuzz check check-types check-style check-imports check-links gpu next release format docs clean

dev: .venv/ready

demo: .venv/ready
	@.venv/bin/tawa demo

setup: .venv/ready $(OTHERS:%=.venv-%/ready)

test: test-3.6 contract

test-3.6: .venv/ready
	.venv/bin/pytest $(SPREAD)

# One process for each version, beside each other: none collects or compiles what another one of the same version has.
contract: .venv/ready $(OTHERS:%=.venv-%/ready)
	@$(MAKE) --no-print-directory --jobs=$(words $(OTHERS)) --keep-going --output-sync=target WORKERS=0 $(OTHERS:%=contract-%)

$(OTHERS:%=contract-%): contract-%: .venv/ready .venv-%/ready
	.venv-$*/bin/python -m pytest $(SPREAD) -m contract $(CONTRACT_TESTS)

nightly fuzz: export TEST_EVERY_CASE := 1

nightly: every-3.6 $(OTHERS:%=every-%) fuzz

every-3.6: .venv/ready
	.venv/bin/pytest $(SPREAD) --random-order

$(OTHERS:%=every-%): every-%: .venv/ready .venv-%/ready
	.venv-$*/bin/python -m pytest $(SPREAD) --random-order $(COMPILE_TESTS)

PROPERTY_TESTS = $(shell grep -rlE '^@(given|settings)|^    @given' tests --include='test_*.py')

fuzz: .venv/ready
	.venv/bin/pytest $(SPREAD) --hypothesis-profile=fresh $(PROPERTY_TESTS)

# A link that leads nowhere is a warning, and --strict fails on warnings; with --quiet it does not.
BUILD_DOCS = NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict

check: check-types check-style check-imports check-links # the longest first

check-style: .venv/ready
	.venv/bin/ruff check
	.venv/bin/ruff format --check

check-types: .venv/ready
	.venv/bin/pyright --level error --pythonpath .venv/bin/python

check-imports: .venv/ready
	PYTHONPATH=src .venv/bin/lint-imports --no-cache

check-links: .venv/ready
	$(BUILD_DOCS)

gpu:
	PYTHONPATH=src:. $(PYTHON) -m bench.blackwell --run

next: .venv/ready $(addprefix .venv-,$(addsuffix /ready,$(lastword $(OTHERS))))
	.venv/bin/python -m tests.project.next $(ONLY)

release: .venv/ready
	.venv/bin/python -m tests.project.release

format: .venv/ready
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

docs: .venv/ready
	$(BUILD_DOCS)

clean:
	rm -rf .venv $(OTHERS:%=.venv-%) build dist .pytest_cache .ruff_cache .hypothesis

.venv/ready: .venv/bin/uv pyproject.toml
	@echo "setting up .venv: Triton 3.6.0 and the tools (a minute or two the first time)"
	@$(call INSTALL_IN,.venv,-e '.[dev]' 'triton==3.6.0')
	@touch $@

.venv/bin/uv: .venv/pyvenv.cfg
	@.venv/bin/python -m pip $(PIP_INSTALL) uv

# The packages of .venv stand behind the own ones on the path: Triton is that of this environment.
.venv-%/ready: .venv/bin/uv pyproject.toml
	$(call make_venv,.venv-$*,--without-pip)
	@echo "setting up .venv-$*: Triton $(filter $*.%,$(RELEASES))"
	@$(call INSTALL_IN,.venv-$*,--no-deps 'triton==$(filter $*.%,$(RELEASES))')
	@.venv/bin/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	  > $$(.venv-$*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/packages.pth
	@touch $@

.venv/pyvenv.cfg:
	$(call make_venv,.venv)

define make_venv
@test -n "$(PYTHON)" || { echo "Tawa needs Python 3.11 or newer; none was found. Name one: make PYTHON=/path/to/python" >&2; exit 1; }
@test -x $(1)/bin/python || $(PYTHON) -m venv $(2) $(1) || \
  { echo "$(PYTHON) cannot make virtual environments; on Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
endef
