# make demo    sets everything up, builds, and trains a small net on two ranks
# make test    sets everything up, builds, and runs all checks and tests
#
# TORCH=2.13.0     the torch that .venv gets
# PYTHON=python    use an environment that already has torch instead of making .venv
# JOBS=2           compiler processes
# WORKERS=2        tests at a time in test-python: most of them wait (for ranks to start, for limits to pass)
#
# make conformance   judges customccl and gloo by the contract, and the kit by its planted bugs; keeps docs/results/conformance (about 15 minutes)
# make matrix        writes docs/feature-matrix.md from docs/results/conformance
#
# make bench         measures against gloo, DeepSpeed and the MPIs (about 10 minutes); writes docs/performance.md
# make bench-quick   the same in about 2 minutes, fewer operations and sizes
# make bench-big     2, 4, 8 and 16 ranks with a core each, under 9 minutes; needs no network and no set-up but torch
#
# Also: wheel, check-torch-versions, build, lint, format, test-cpp, sanitize, test-python, test-long, test-upstream, test-wheel, clean.

TORCH ?= 2.13.0
PYTHON ?=
JOBS ?= $(shell nproc)
WORKERS ?= 2

# The scripts of an environment (torchrun, pytest) lie beside its python.
# In quotes wherever it is used: the folder of the clone may have spaces in its name.
python := $(if $(PYTHON),$(shell command -v "$(PYTHON)"),$(CURDIR)/.venv/bin/python)
ctest = $(shell "$(python)" scripts/tool_path.py ctest)

# Containers often set it: each of some hundred programs would compile torch's sources anew (4 s instead of 1.5).
unexport PYTHONDONTWRITEBYTECODE

.PHONY: conformance matrix bench bench-quick bench-big wheel check-torch-versions demo test set-up build lint format test-cpp sanitize sanitize-address sanitize-thread test-python test-upstream test-wheel test-long clean
.NOTPARALLEL:

demo: build
	OMP_NUM_THREADS=1 "$(python)" -m torch.distributed.run --nproc-per-node 2 examples/train_digits.py

test: build lint test-cpp test-python

set-up:
	@bash scripts/set_up.sh $(TORCH) "$(PYTHON)"

# An editable install: Python files are used where they lie, the two libraries are put beside them.
build: set-up
	@bash scripts/build.sh "$(python)" $(JOBS)

lint: build
	"$(python)" scripts/lint.py

format: set-up
	"$(python)" scripts/lint.py --fix

test-cpp: build
	"$(ctest)" --test-dir build/package --parallel $(JOBS) --output-on-failure --no-tests=error

# Thread sanitizer sees ranks that are threads; tests whose names contain Process or Fork start processes and are left out there,
# and so are collectives of 6 and 7 ranks.
sanitize: sanitize-address sanitize-thread

sanitize-address: set-up
	@bash scripts/sanitize.sh "$(python)" address,undefined $(JOBS)

sanitize-thread: set-up
	@bash scripts/sanitize.sh "$(python)" thread $(JOBS)

test-python: build
	"$(python)" -m pytest test --numprocesses $(WORKERS) --dist loadfile

# A million messages, a thousand groups at once, 500 members that die, fifty jobs at once, ...: about half an hour, and 4 GiB of memory.
test-long: build
	TEST_LONG=1 "$(python)" -m pytest test -m long -o timeout=3600

# What the standard tier says of each backend, and whether the kit itself is to be trusted. gloo has red cells (exit 1),
# a backend that does nothing is all unsupported (exit 4); customccl must have none.
kit = "$(python)" -m torch_customccl.conformance
reports = build/conformance
kept = docs/results/conformance
conformance: build
	mkdir -p $(reports) $(kept)/kit
	$(kit) selftest --out $(kept)/kit/selftest.json
	$(kit) --backend donothing --import torch_customccl.conformance.mutants --out $(reports)/donothing || test $$? = 4
	$(kit) pack $(reports)/donothing/result.json $(kept)/kit/donothing-cpu.json.gz
	$(kit) --backend gloo --selftest-score $(kept)/kit/selftest.json --out $(reports)/gloo || test $$? = 1
	$(kit) pack $(reports)/gloo/result.json $(kept)/gloo-cpu.json.gz
	$(kit) --backend customccl --selftest-score $(kept)/kit/selftest.json --out $(reports)/customccl; \
	red=$$?; $(kit) pack $(reports)/customccl/result.json $(kept)/customccl-cpu.json.gz && exit $$red

# One column for each result in docs/results/conformance; pytest fails when the page or customccl's smoke tier no longer agree with them.
matrix:
	$(kit) matrix $(kept)/*.json.gz --out docs/feature-matrix.md

# Compare two commits, folders or results: $(python) -m benchmarks compare OLD NEW
bench bench-quick: build
	"$(python)" -m benchmarks install
	"$(python)" -m benchmarks run $(if $(filter bench,$@),--full,--quick) --report

bench-big:
	@bash scripts/bench_big.sh "$(PYTHON)" $(JOBS)

# All of torch's own distributed tests, with customccl and with gloo; writes docs/upstream-tests.md. Six minutes.
test-upstream: build
	"$(python)" test/upstream/run.py --all

# The wheel with the shims of all supported torch versions, installed beside one torch and beside another. Downloads gigabytes.
test-wheel: wheel
	WHEEL_TEST=1 "$(python)" -m pytest test/packaging/test_wheel.py

# Does the one shim compile for every torch that is supported? Fetches their headers once (about 600 MB).
check-torch-versions: set-up
	"$(python)" scripts/check_torch_versions.py

# One wheel for this Python with a shim for every supported torch, in dist/.
wheel: set-up
	"$(python)" scripts/make_wheel.py dist

clean:
	rm -rf build dist *.egg-info torch_customccl/*.so torch_customccl/include torch_customccl/lib
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
