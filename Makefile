# Every target sets up what it needs first. ARGS are handed on: make quickstart ARGS="--seed 1"
PYTEST := OMP_NUM_THREADS=1 .venv/bin/python -m pytest
# On all cores in the order of collection, which puts tests with real parts last (tests/conftest.py).
PARALLEL := -n auto --dist loadgroup --no-loadscope-reorder --max-worker-restart 1

.PHONY: setup quickstart test check fast lint soak clean

setup: ## .venv with pinned packages, sandbox, default harness
	@scripts/setup.sh

quickstart: setup ## train the tiny policy until it visibly learns
	@.venv/bin/lego quickstart $(ARGS)

test: setup ## everything but soak and gpu; docker tests where an engine answers
	@$(PYTEST) $(PARALLEL) -m "not soak and not gpu" $(ARGS)

check: ## five minutes at most: lint, types, contracts, fast tests
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint fast

fast: setup
	@$(PYTEST) $(PARALLEL) -m "not long and not slow and not docker and not soak and not gpu" $(ARGS)

lint: setup
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/pyright
	@.venv/bin/lint-imports

soak: setup ## long fuzz, chaos and several-seed runs
	@$(PYTEST) -m soak --timeout 0 $(ARGS)

clean: ## what setup and tests made in this clone; runs/ stays
	@rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
