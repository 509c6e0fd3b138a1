#!/usr/bin/env bash
# Everything that needs a GPU, one part after another: `deploy/gpu.sh OUT PART...`. Each part writes OUT/PART.log; results
# that are documents (results.json, baselines) go to OUT as well. A part that fails does not keep the next from running.
#
#   laws       the contract tests and the device tests
#   faults     reported faults that only a GPU shows: memory over 2,000 turns, ten cold starts, FP8 at every size
#   gates      kingfisher gate correctness and performance
#   prefill    a prefill by tokens, and its host time
#   step       decode speed by batch, FP8, with keys and values in bf16 and in FP8
#   schemes    the FP8 schemes against each other: time and errors of a layer's products
#   codec      whole calls and each convolution by tile
#   start      a converted checkpoint of full size: conversion, and start to ready
#   sanitize   compute-sanitizer over the kernels' laws: memcheck, racecheck
#   closed     the server with s2-pro-random: closed loop, c = 1 to 128; leads of 3 s, then without pacing
#   talkers    the same: 64 and 256 real-time talkers who begin within a turn's length
#   ten        the same: 64 talkers for ten minutes
#   paced      the same: 64 talkers with a lead of 0.4 s, for the jitter
#   open       the same: open loop
#   bundled    the server with the bundled voice
# The load tests need libopus where the loader finds it. PYTHON and PORT may be set; SECONDS_A_LEVEL too (default 10).
set -uo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "$1")
shift
mkdir -p "$out"
python=${PYTHON:-python3}
port=${PORT:-8123}
seconds=${SECONDS_A_LEVEL:-10}
export PYTHONUNBUFFERED=1 PYTHONPATH="$PWD:$PWD/clients/python${PYTHONPATH:+:$PYTHONPATH}"

laws() {
    "$python" -m pytest -q -c tests/gpu/pytest.ini --rootdir=. tests/integration/test_engine_contract.py -k cuda
    "$python" -m pytest -q -c tests/gpu/pytest.ini --rootdir=. tests/gpu --ignore=tests/gpu/test_gpu_faults.py
}

faults() { "$python" -m pytest -q -s -c tests/gpu/pytest.ini --rootdir=. tests/gpu/test_gpu_faults.py; }

gates() {
    for cache in bf16 fp8; do
        "$python" -m realtime gate correctness --device cuda --kv-cache $cache --no-listen --json "$out/correctness-kv-$cache.json"
    done
    "$python" -m realtime gate performance
    "$python" -m realtime gate performance --write "$out/h200-s2pro.json" --commit "$(git rev-parse --short HEAD 2>/dev/null)"
}

prefill() { "$python" -m loadtest.micro.prefill --out "$out/prefill.json"; }

step() {
    for cache in bf16 fp8; do
        "$python" -m loadtest.micro.step --precision fp8 --kv-cache $cache --steps 60 --out "$out/step-kv-$cache.json"
    done
}

schemes() { "$python" -m loadtest.micro.fp8_schemes speed --out "$out/fp8-schemes.json"; }

codec() { "$python" -m loadtest.micro.codec --out "$out/codec.json"; }

start() { "$python" -m loadtest.micro.start --out "$out/start.json"; }

sanitize() {
    for tool in memcheck racecheck; do
        echo "== $tool"
        timeout 240 compute-sanitizer --tool $tool --report-api-errors no --error-exitcode 9 \
            "$python" -m pytest -q -x -c tests/gpu/pytest.ini --rootdir=. tests/gpu/test_gpu_kernels.py \
            -k "attend or norm or swiglu or sampler or (conv_equals_torch and 1-150)"
    done
}

# serve ARGUMENTS -- COMMAND...: the command beside a server that is ready, then the server ends.
serve() {
    local arguments=()
    while [ "$1" != -- ]; do arguments+=("$1"); shift; done
    shift
    "$python" -m realtime serve --host 127.0.0.1 --port "$port" "${arguments[@]}" >"$out/server.log" 2>&1 &
    local server=$!
    for _ in $(seq 240); do
        "$python" -c "import urllib.request as u; u.urlopen('http://127.0.0.1:$port/readyz', timeout=1)" 2>/dev/null && break
        kill -0 $server 2>/dev/null || break
        sleep 0.5
    done
    "$@"
    kill $server
    wait $server
    tail -n 5 "$out/server.log"
}

load() {
    local name=$1
    shift
    "$python" -m loadtest --url "ws://127.0.0.1:$port/v1/tts/live" --seconds "$seconds" --out "$out/$name" "$@"
}

full_size=(--model s2-pro-random --slots 256 --max-sessions 400)

closed() { serve "${full_size[@]}" -- both_closed; }
both_closed() {
    load closed --mode closed -n 1 4 16 32 64 128 --processes 4
    load closed-unpaced --mode closed -n 1 4 16 32 64 128 --processes 4 --max-lead-s 30
}

talkers() { serve "${full_size[@]}" -- load talkers --mode talkers -n 64 256 --ramp-s 15 --seconds 40 --processes 4; }

ten() { serve "${full_size[@]}" -- load ten --mode talkers -n 64 --ramp-s 15 --seconds 600 --processes 4; }

paced() { serve "${full_size[@]}" -- load paced --mode talkers -n 64 --ramp-s 15 --seconds 30 --max-lead-s 0.4 --processes 4; }

open() { serve "${full_size[@]}" -- load open --mode open -n 4 8 16 32 --processes 4; }

bundled() { serve --device cuda --slots 16 -- load bundled --mode talkers -n 1 8; }

status=0
for part in "$@"; do
    case "$part" in
        laws | faults | gates | prefill | step | schemes | codec | start | sanitize | closed | talkers | ten | paced | open | bundled) ;;
        *) echo "there is no part $part" >&2; exit 2 ;;
    esac
    began=$(date +%s)
    "$part" 2>&1 | tee "$out/$part.log" || status=1
    echo "== $part: $(($(date +%s) - began)) s"
done
exit $status
