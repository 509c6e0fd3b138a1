#!/bin/bash
# first call
cd "$(dirname "$0")"; export PYTHONUNBUFFERED=1 PYTHONPATH=.
section() { echo "=== $1 [$(date +%T)]"; }
section env; nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv,noheader; python3 -c "
import torch, cuda.bindings; print(torch.__version__, cuda.bindings.__version__)
from cuda.bindings import driver, nvrtc; print(nvrtc.nvrtcVersion())"
section tests; timeout 200 python3 -m pytest -c tests/gpu/pytest.ini --rootdir=. tests/gpu -q -x --maxfail=6 -s > $OUT/tests.log 2>&1; tail -25 $OUT/tests.log
section step-fp8; timeout 150 python3 -m loadtest.micro.step --precision fp8 --steps 60 --out $OUT/step-fp8.json 2>&1 | grep -v '^{' | tail -20
section stream; timeout 40 python3 -m loadtest.micro.stream --out $OUT/stream.json 2>&1 | tail -52
section codec; timeout 60 python3 -m loadtest.micro.codec --out $OUT/codec.json 2>&1 | tail -30
section kernels; timeout 60 python3 -m loadtest.micro.kernels --batches 1 64 2>&1 | tail -54
section gemm; timeout 60 python3 -m loadtest.micro.gemm --rows 1 16 64 128 --out $OUT/gemm.json 2>&1 | tail -40
section step-bf16; timeout 60 python3 -m loadtest.micro.step --precision bf16 --batches 1 16 64 --steps 40 --out $OUT/step-bf16.json 2>&1 | grep -v '^{' | tail
section end
