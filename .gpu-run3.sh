#!/bin/bash
cd "$(dirname "$0")"; export PYTHONUNBUFFERED=1 PYTHONPATH=.
section() { echo "=== $1 [$(date +%T)]"; }
section tests; timeout 150 python3 -m pytest -c tests/gpu/pytest.ini --rootdir=. tests/gpu -q --maxfail=8 -s > $OUT/tests.log 2>&1; grep -E "frames equal|SNR|passed|failed|^E  |^FAILED|^ERROR" $OUT/tests.log | cut -c1-300 | head -50
section step-fp8; timeout 100 python3 -m loadtest.micro.step --precision fp8 --steps 50 --out $OUT/step-fp8.json 2>&1 | grep -v '^{' | tail -20
section kernels; timeout 60 python3 -m loadtest.micro.kernels --batches 16 --out $OUT/kernels.json 2>&1 | tail -24
section codec; timeout 60 python3 -m loadtest.micro.codec --no-convs --out $OUT/codec.json 2>&1 | tail -30
section end
