# Environments of their own for what needs torch. Included by the Makefile or used alone:
#   make -f tests/multimodal/environments.mk multimodal-references    rewrites tests/multimodal/references.json.gz (torch, CPU)
#   make -f tests/multimodal/environments.mk multimodal-torchvision   compares with torchvision, writes docs/multimodal/torchvision.md
#   make -f tests/multimodal/environments.mk multimodal-figures       measures, writes docs/multimodal/performance.md
#   make -f tests/multimodal/environments.mk multimodal-all           every picture of the corpus against the PIL backend
#   make -f tests/multimodal/environments.mk tiny-qwen2-vl            a model for `make test-real`, and transformers' answers

MULTIMODAL_PYTHON ?= python3
MULTIMODAL_ENV ?= .venv-multimodal
TORCHVISION_ENV ?= .venv-torchvision
TINY_QWEN2_VL ?= build/tiny-qwen2-vl
MULTIMODAL_PINS = transformers==5.24.0 pillow==13.0.0 numpy==2.4.6 'pybase64>=1.4' 'wasmtime>=36'
# mistral-common asks for an older numpy on Python 3.12 and before, and does without.
MISTRAL_NEEDS = 'pydantic>=2.12' 'pydantic-extra-types[pycountry]>=2.10' 'jsonschema>=4.21' 'tiktoken>=0.7' 'requests>=2.0'
TORCHVISION_PINS = torch==2.14.1 torchvision==0.29.1
FAST_PINS = 'isal>=1.8' 'simplejpeg>=1.9'
VLLM_PIN = vllm==0.33.0
ONE_THREAD = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: multimodal-references multimodal-torchvision multimodal-torchvision-env multimodal-figures multimodal-all tiny-qwen2-vl

$(MULTIMODAL_ENV)/bin/python:
	$(MULTIMODAL_PYTHON) -m venv $(MULTIMODAL_ENV)

$(TORCHVISION_ENV)/bin/python:
	$(MULTIMODAL_PYTHON) -m venv $(TORCHVISION_ENV)

multimodal-references: $(MULTIMODAL_ENV)/bin/python
	$(MULTIMODAL_ENV)/bin/pip install --quiet 'torch==2.13.0' $(MULTIMODAL_PINS) $(MISTRAL_NEEDS)
	$(MULTIMODAL_ENV)/bin/pip install --quiet --no-deps 'mistral-common==1.13.1'
	$(MULTIMODAL_ENV)/bin/pip download --quiet --no-deps --dest build $(VLLM_PIN)
	$(MULTIMODAL_ENV)/bin/python -m zipfile --extract build/vllm-*.whl build/vllm
	$(MULTIMODAL_ENV)/bin/python tests/multimodal/make_references.py build/vllm

multimodal-torchvision-env: $(TORCHVISION_ENV)/bin/python
	$(TORCHVISION_ENV)/bin/pip install --quiet $(TORCHVISION_PINS) $(MULTIMODAL_PINS) $(FAST_PINS)

multimodal-torchvision: multimodal-torchvision-env
	mkdir -p build
	$(ONE_THREAD) PYTHONPATH=src $(TORCHVISION_ENV)/bin/python bench/multimodal/bench.py --torchvision --rounds 3 \
		--json build/torchvision-times.json
	$(ONE_THREAD) PYTHONPATH=src $(TORCHVISION_ENV)/bin/python tests/multimodal/compare_torchvision.py \
		--times build/torchvision-times.json --report docs/multimodal/torchvision.md

multimodal-figures: multimodal-torchvision-env
	mkdir -p build
	$(ONE_THREAD) PYTHONPATH=src $(TORCHVISION_ENV)/bin/python bench/multimodal/bench.py --torchvision --rounds 3 \
		--json build/torchvision-times.json
	$(ONE_THREAD) PYTHONPATH=src .venv/bin/python bench/multimodal/bench.py --rounds 4 --json build/times.json \
		--torchvision-times build/torchvision-times.json --report

tiny-qwen2-vl: multimodal-torchvision-env
	$(TORCHVISION_ENV)/bin/python tests/real/make_tiny_qwen2_vl.py $(TINY_QWEN2_VL)

# The same model as by tiny-qwen2-vl, made in the environment of vLLM that `make test-engines` has (tools/engines.sh).
$(TINY_QWEN2_VL)/cases.json: tests/real/make_tiny_qwen2_vl.py
	@PYTHONPATH=tests/engines/torchvision_operators .venv-vllm/bin/python tests/real/make_tiny_qwen2_vl.py $(TINY_QWEN2_VL)

multimodal-all:
	.venv/bin/python -m pytest -q -m slow tests/multimodal/test_images_equal_reference.py
