#!/usr/bin/env bash
# Prepare a virtual environment for Kingfisher: `deploy/setup.sh VENV serve|test`.
# Safe to run again; `make serve` and `make test` call it when pyproject.toml is newer than the environment.
set -euo pipefail
venv=$1
purpose=$2
python=${PYTHON:-python3}
torch_version=2.13.0

say() { printf '\033[1m%s\033[0m\n' "kingfisher: $*"; }
die() { printf 'kingfisher: %s\n' "$*" >&2; exit 1; }

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    die "Python 3.11 or newer is needed; '$python' is not. Set PYTHON=/path/to/python3.11."

# --- system packages -------------------------------------------------------------------------------
wanted=()
"$python" -c 'import ctypes.util, sys; sys.exit(ctypes.util.find_library("opus") is None)' || wanted+=(libopus0)
command -v c++ >/dev/null || wanted+=(g++)
"$python" -c 'import ensurepip' 2>/dev/null || wanted+=(python3-venv)
if [ "$purpose" = test ]; then
    command -v chromium >/dev/null || wanted+=(chromium)
    command -v chromedriver >/dev/null || wanted+=(chromium-driver)
    command -v opusinfo >/dev/null || wanted+=(opus-tools)
fi
if [ ${#wanted[@]} -gt 0 ]; then
    as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    if command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }; then
        say "installing system packages: ${wanted[*]}"
        "${as_root[@]}" apt-get update -qq
        DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null
    else
        die "please install these system packages (Debian names): ${wanted[*]}"
    fi
fi

# --- Python packages -------------------------------------------------------------------------------
pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }
if [ ! -x "$venv/bin/python" ]; then
    say "making the virtual environment $venv"
    "$python" -m venv "$venv"
    pip install --quiet --upgrade pip
fi

if ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
    # uv knows where the builds for each accelerator live ("auto" looks for an NVIDIA driver); plain pip
    # on Linux always takes the multi-gigabyte CUDA build unless a CPU wheel is at hand.
    say "installing PyTorch $torch_version (the build that fits this machine)"
    pip install --quiet uv
    "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --torch-backend=auto "torch==$torch_version" 2>/dev/null ||
        pip install --quiet "torch==$torch_version"
fi
extras=""
[ "$purpose" = test ] && extras="[dev]"
if "$venv/bin/python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
    extras=$([ -n "$extras" ] && echo "[dev,gpu]" || echo "[gpu]")
fi
say "installing Kingfisher and what it needs"
pip install --quiet --editable ".$extras"
touch "$venv/.ready-$purpose"
say "ready"
