#!/bin/bash
cd "$(dirname "$0")"; export PYTHONUNBUFFERED=1 PYTHONPATH=.
section() { echo "=== $1 [$(date +%T)]"; }
section frame; timeout 60 python3 -m loadtest.micro.frame --out $OUT/frame.json 2>&1 | tail -20
section tests; timeout 100 python3 -m pytest -c tests/gpu/pytest.ini --rootdir=. tests/gpu -q --maxfail=8 -s > $OUT/tests.log 2>&1; grep -E "frames equal|SNR|passed|failed|^E  |^FAILED|^ERROR" $OUT/tests.log | cut -c1-300 | head -50
section step-fp8; timeout 80 python3 -m loadtest.micro.step --precision fp8 --batches 1 4 64 --steps 50 --out $OUT/step-fp8.json 2>&1 | grep -v '^{' | tail -20
section kernels; timeout 60 python3 -m loadtest.micro.kernels --batches 64 --codec-every 2 --out $OUT/kernels.json 2>&1 | tail -26
section end
