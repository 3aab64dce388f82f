# Every target works by itself on a machine with git, make and Python 3.11 or newer: it makes .venv first, with what that target needs.
#   make demo          start a gateway before an embedded engine, stream one chat completion, say what to do next
#   make test          the tests to run at every change: all modules, one path of each cell of the matrix, one real process
#   make test-all      these and all the cases that make test leaves out; checks docs/matrix.md, notes how long each part took
#   make test-rest     what make test-all runs beside make test: .ci/run runs the two after each other
#   make test-slow     what takes longer still
#   make test-services what needs programs that tools/services.sh installs (as root): MCP servers from npm, the gateway's tests on a busy machine
#   make test-interop  the HTTP/2 transport against a gRPC server under Node.js
#   make test-clients  Codex, Claude Code, agents and SDKs from npm and PyPI against a gateway; writes docs/clients.md (needs Node.js and npm)
#   make test-real     the client tests against a real engine: ENGINE=grpc://host:port
#                      MODEL=build/tiny-qwen2-vl (by make tiny-qwen2-vl) runs those with pictures, for an engine with that model
#   make multimodal-figures       what a picture costs, measured beside transformers on Pillow and on torchvision
#   make multimodal-torchvision   pictures compared with transformers on torchvision, in an environment of its own (6 GB)
#   make test-engines  starts real engines on the CPU, each in an environment of its own, asks them through the gateway, writes
#                      docs/engines.md: ENGINES="mlx vllm sglang", or some of them; vLLM and SGLang (Linux, 4 GB) need Python 3.11 and
#                      TORCH=FOLDER, or the address of a page of links, where pip finds the build of torch for CPUs
#   make demo-real     one answer of that engine with a tiny model, streamed through the gateway
#   make check         lint, format, types, architecture, generated files
#   make docs          write the generated pages, run the snippets, follow the links; docs/matrix.md is of the last make test-all
#   make matrix-check  fail where docs/matrix.md is not what the last make test-all gave
#   make mutate        change the code of a room in small ways, and list the changes that its tests do not notice: ROOM=routing
#                      (MUTATE='--sample 100 --seed 2' draws another sample)
#   make security      play the attacks of docs/security.md against real processes, hold their bounds, write the page anew
#   make chaos         engines and the network to them fail in every way under streams; writes the table of docs/reliability.md
#   make bench         the gateway's cost per request; PEER='name=command', PEER_SMG=path or PEER_LITELLM=path adds others
#                      (BENCH='--rounds 3 --scenario paced' passes further options)
#   make bench-frontends   one real vLLM on the CPU behind its own server and behind ours; PEER_SMG=path adds SMG, TORCH as above
#                      (BENCH='--minutes 25 --write' bounds it and writes bench/README.md)
#   PYTHON=python3.13 chooses the interpreter that .venv is made with; JOBS=4 the number of test processes

PYTHON ?=
VENV ?= .venv
# one more than there are cores, since each process waits for others a third of its time
JOBS ?= $(shell expr 1 + $$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN))
ENGINES ?= mlx vllm sglang
TORCH ?=
ENVIRONMENT = PYTHON='$(PYTHON)' VENV='$(VENV)' sh tools/environment.sh
BIN = $(VENV)/bin
# tests/tiers.py says which tests each of these targets runs
PYTEST = $(BIN)/python -m pytest -q
SPREAD = $(PYTEST) -n $(JOBS) --maxprocesses 8 --dist worksteal
RULES = $(addprefix tests/test_,architecture.py public_api.py names.py limits.py waiting.py)
GENERATED = $(BIN)/python tools/config_docs.py

.PHONY: help demo security test test-rest test-all test-slow test-services test-interop test-clients test-real check lint types architecture format bench bench-frontends chaos proto proto-check docs docs-check matrix-check mutate clean server-env dev-env engines-env test-engines demo-real clients-env

help:
	@sed -n 's/^#   //p' Makefile

server-env:
	@$(ENVIRONMENT) server

dev-env:
	@$(ENVIRONMENT) dev

demo: server-env
	@$(BIN)/smg-gateway demo

test: dev-env
	@$(SPREAD) --tier test tests

test-rest: dev-env
	@$(SPREAD) --tier test-rest tests

test-all: dev-env
	@rm -f build/matrix.json
	@$(SPREAD) --tier test-all --keep-times tests
	@$(BIN)/python tools/matrix.py --check

test-slow: dev-env
	@$(SPREAD) --tier test-slow --keep-times tests

test-services: dev-env
	@$(PYTEST) -p no:xdist --tier test-services --keep-times tests

test-interop: dev-env
	@SMG_INTEROP=1 $(PYTEST) --tier test-interop --keep-times tests/interop

clients-env:
	@$(ENVIRONMENT) clients

test-clients: clients-env
	@rm -f build/clients/results.json
	@SMG_CLIENTS_PAGE=docs/clients.md $(PYTEST) -p no:xdist --tier test-clients --keep-times tests/clients tests/test_readme_types.py

test-real: dev-env
	@SMG_REAL_ENGINE='$(ENGINE)' SMG_REAL_MODEL='$(MODEL)' $(PYTEST) --tier test-real tests/real

engines-env:
	@PYTHON='$(PYTHON)' TORCH='$(TORCH)' sh tools/engines.sh $(ENGINES)

test-engines: engines-env dev-env
	@$(if $(filter vllm,$(ENGINES)),$(MAKE) --no-print-directory $(TINY_QWEN2_VL)/cases.json)
	@SMG_ENGINES='$(ENGINES)' SMG_ENGINES_REPORT=1 $(PYTEST) -p no:xdist --tier test-engines --keep-times tests/engines

demo-real: server-env
	@PYTHON='$(PYTHON)' sh tools/engines.sh mlx
	@$(BIN)/python tools/demo_real.py .venv-mlx/bin/python tests/engines/tinymodel

check: dev-env
	@$(BIN)/python tools/check.py types lint architecture proto-check docs-check

lint: dev-env
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: dev-env
	@$(BIN)/mypy

architecture: dev-env
	@$(PYTEST) -p no:xdist --tier architecture $(RULES)

format: dev-env
	@$(BIN)/ruff check --fix-only -q .
	@$(BIN)/ruff format .

security: server-env
	@$(BIN)/python bench/security.py

chaos: server-env
	@$(BIN)/python bench/chaos.py --write
	@$(BIN)/python bench/mesh_split.py --write

bench: server-env
	@$(BIN)/python bench/compare.py $(if $(PEER_SMG),--smg '$(PEER_SMG)') $(if $(PEER_LITELLM),--litellm '$(PEER_LITELLM)') \
		$(if $(PEER),--peer '$(PEER)') $(BENCH)

bench-frontends: server-env
	@PYTHON='$(PYTHON)' TORCH='$(TORCH)' sh tools/engines.sh vllm
	@$(BIN)/python bench/frontends.py $(if $(PEER_SMG),--smg '$(PEER_SMG)') $(BENCH)

proto: dev-env
	@$(BIN)/python tools/proto.py

proto-check: dev-env
	@$(BIN)/python tools/proto.py --check

docs: dev-env
	@$(GENERATED)
	@$(BIN)/python tools/metrics_pages.py
	@$(BIN)/python tools/packages_page.py
	@$(BIN)/python tools/providers_page.py
	@$(BIN)/python tools/matrix.py
	@$(BIN)/python -m pytest -q -p no:xdist tests/test_docs.py

docs-check: dev-env
	@$(GENERATED) --check
	@$(BIN)/python tools/metrics_pages.py --check
	@$(BIN)/python tools/packages_page.py --check
	@$(BIN)/python tools/providers_page.py --check

matrix-check: dev-env
	@$(BIN)/python tools/matrix.py --check

mutate: dev-env
	@$(BIN)/python tools/mutate.py $(ROOM) $(MUTATE)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage bench/results
	find src tests bench tools examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

include tests/multimodal/environments.mk
