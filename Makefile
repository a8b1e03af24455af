# make demo   set up, run the demo from data to page and paper, show its tables
# make figures  make tables, figures, page and paper of the committed results again
# make test   set up, pass the quick tests, for every change
# make test-all  set up, pass all tests; THINWIRE_PART="2 of 6" makes it a sixth of those that are not quick
# make faults every fault in every phase of a run; THINWIRE_FAULTS="2 of 12" makes it a twelfth of them
# make lint   set up, format and type checks
# make docs   set up, build the documentation as a site in site/
# make setup  what the others begin with: the environment
# make clean  remove the environment and the site; make clean-results removes your results, and asks before
.PHONY: demo figures test test-all faults lint docs setup clean clean-results
bin := .venv/bin

demo: setup
	@$(bin)/snakemake --config suites=demo,text_demo,claims/mp2_digits repetitions=3
	@echo
	@cat results/tables/demo/summary.md
	@echo
	@cat results/tables/text_demo/summary.md
	@echo
	@cat results/tables/claims/mp2_digits/summary.md
	@echo
	@echo "figures: results/figures/demo  runs: results/runs, one row each in results/summary.csv"
	@echo "page:    results/index.html    all results, for a browser"
	@echo "paper:   results/paper.pdf     its numbers lead to the runs"
	@echo "claims:  results/claims.md     verdicts on the claims of eight publications"

figures: setup
	@$(bin)/thinwire rebuild

pytest := $(bin)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

test: setup
	@$(pytest) -m "not slow"

test-all: setup
	@$(pytest)

faults: setup
	@THINWIRE_FAULTS="$${THINWIRE_FAULTS:-1 of 1}" $(bin)/python -m pytest tests/faults -n auto

lint: setup
	@$(bin)/ruff check .
	@$(bin)/ruff format --check .
	@$(bin)/mypy
	@$(bin)/snakefmt --check Snakefile workflow
	@$(bin)/snakemake --lint

docs: setup
	@NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build --strict --quiet
	@echo "open: site/index.html"

setup:
	@envs/setup.sh

clean:
	rm -rf .venv site

# Snakemake's notes belong to the results; results/reference is part of the project.
clean-results:
	@printf 'delete all of results/ but results/reference? [y/N] ' && read -r answer && [ "$$answer" = y ]
	find results -mindepth 1 -maxdepth 1 ! -name reference -exec rm -rf {} +
	rm -rf .snakemake wandb results/reference/runs results/reference/paper
