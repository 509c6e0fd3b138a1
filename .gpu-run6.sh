#!/bin/bash
cd "$(dirname "$0")"; export PYTHONUNBUFFERED=1 PYTHONPATH=.
section() { echo "=== $1 [$(date +%T)]"; }
section stream; timeout 40 python3 -m loadtest.micro.stream --out $OUT/stream.json 2>&1 | tail -42
section frame; timeout 60 python3 -m loadtest.micro.frame --in-flight 2 3 4 6 --out $OUT/frame.json 2>&1 | tail -40 || exit
section trace; timeout 40 python3 -m loadtest.micro.trace --batch 1 --in-flight 3 2>&1 | tail -40
section end
