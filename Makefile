# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
# The same versions for every install, the isolated build environment included.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_BUILD_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-slow check docs wheel-check bench clean

demo: .venv/.installed-demo
	$(BIN)/privem demo --out demo

test: .venv/.installed-dev .venv/.installed-axe
	$(BIN)/python -m pytest -q -n 2

test-slow: .venv/.installed-dev .venv/.installed-axe .venv/.installed-docs
	$(BIN)/python -m pytest -q -m slow -n 2 --dist worksteal

check: .venv/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# The site, in build/site: its tutorials are run, and a warning is an error.
docs: .venv/.installed-docs
	$(BIN)/python -m sphinx -W --keep-going -q -c docs . build/site
	@echo "The site is in build/site/index.html"

# The wheel as users install it: no constraints, newest and lowest versions of its dependencies.
wheel-check:
	$(PYTHON) .ci/bare-wheel

bench: .venv/.installed-dev
	$(BIN)/python -m benchmarks

.venv/.installed-docs: .venv/.installed-dev
	$(BIN)/python -m pip install -q --group docs
	touch $@

clean:
	rm -rf .venv build demo

.venv/.pip: constraints.txt
	$(PYTHON) -m venv .venv
	@# The pip that comes with Python may predate dependency groups.
	$(BIN)/python -m pip install -q -U "pip>=25.1"
	touch $@

# The version stands in the package.
# Compiled by the installation, where there is a C compiler.
C := hatch_build.py $(wildcard src/privem/kernels/c/*.[ch])

.venv/.installed-demo: .venv/.pip pyproject.toml src/privem/__init__.py $(C)
	$(BIN)/python -m pip install -q -e ".[plot]"
	touch $@

# What checks how readable pages are. Without npm, or its registry, that check is left out.
.venv/.installed-axe: .venv/.pip
	@if npm install --silent --no-save --prefix .venv axe-core@4.14.0; then touch $@; \
	else echo "axe-core could not be installed: pages are not checked by it"; fi

.venv/.installed-dev: .venv/.pip pyproject.toml src/privem/__init__.py $(C)
	$(BIN)/python -m pip install -q -e ".[all]" --group test --group check
	touch $@ .venv/.installed-demo
