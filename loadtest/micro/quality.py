"""What each FP8 scheme costs in quality, on a trained small model: teacher-forced logits against fp32, on the CPU.

    python -m loadtest.micro.quality [--model FOLDER]

The model reads a golden utterance; for the semantic token and for every further codebook: KL divergence of the logits,
top-1 agreement. Activations of the layers' products and their weights are rounded as each scheme would; heads,
embeddings and norms stay as they are. W = weights, A = activations; the number is the group that shares a scale.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from engine.config import ModelConfig
from engine.model.dual_ar import DualAR
from engine.quant.formats import GROUPS_128, MX_32, PER_ROW, PER_TENSOR, SQUARES_128, Grouping, quantise
from engine.tokenizer import Tokenizer
from engine.weights import load as load_weights

ROOT = Path(__file__).parents[2]
Round = Callable[[Tensor], Tensor]


def bf16(x: Tensor) -> Tensor:
    return x.bfloat16().float()


def fp16(x: Tensor) -> Tensor:
    return x.half().float()


def rounded(grouping: Grouping) -> Round:
    def rounds(x: Tensor) -> Tensor:
        return quantise(x.flatten(0, -2), grouping).dequantised().view(x.shape)

    return rounds


SCHEMES: dict[str, tuple[Round, Round]] = {
    "bf16": (bf16, bf16),
    "W channel, A fp16 (W8A16)": (rounded(PER_ROW), fp16),
    "W channel, A row": (rounded(PER_ROW), rounded(PER_ROW)),
    "W tensor, A row": (rounded(PER_TENSOR), rounded(PER_ROW)),
    "W tensor, A tensor": (rounded(PER_TENSOR), rounded(PER_TENSOR)),
    "W 128x128, A 1x128 (bsgemm)": (rounded(SQUARES_128), rounded(GROUPS_128)),
    "W 128x128, A fp16": (rounded(SQUARES_128), fp16),
    "W 1x32, A 1x32 UE8M0 (mxfp8)": (rounded(MX_32), rounded(MX_32)),
}


def load(folder: Path) -> DualAR:
    config, tokenizer = ModelConfig.read(folder), Tokenizer(folder)
    model = DualAR(config, tokenizer.semantic_begin, tokenizer.im_end)
    tensors = load_weights(folder, config)
    model.load_state_dict({name: t.float() for name, t in tensors.items()}, strict=True, assign=True)
    return model.eval().requires_grad_(False)


def quantise_(model: DualAR, weight: Round, activation: Round, *, fast: bool = True) -> None:
    for name, module in model.named_modules():
        is_product = isinstance(module, nn.Linear) and "layers." in name
        if is_product and (fast or not name.startswith("fast_")):
            module.weight.data = weight(module.weight.data)
            module.register_forward_pre_hook(lambda _, inputs: (activation(inputs[0]),))


def logits_of(model: DualAR, columns: Tensor, spoken: Tensor) -> list[Tensor]:
    """Per codebook [frames, V]: columns int64 [1+K, T] ends with the frames whose codes int64 [K, F] are `spoken`."""
    frames, codebooks = spoken.shape[1], model.config.num_codebooks
    hidden, fast_input = model.slow(columns)
    found = [model.semantic_logits(hidden[-frames:])]
    embedded = model.fast_embeddings.weight[spoken[:-1].T]
    x = torch.cat([model.project(fast_input[-frames:])[:, None], embedded], dim=1)
    logits = model.fast(x, 0)[..., : model.config.residual_codebook_size]
    return found + [logits[:, k] for k in range(1, codebooks)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=ROOT / "engine" / "assets" / "voice-v0")
    parser.add_argument("--golden", type=Path, default=ROOT / "tests" / "golden" / "voice_v0.npz")
    options = parser.parse_args()
    reference = load(options.model)
    with np.load(options.golden) as golden:
        cases = [
            (golden[f"prompt_{n}"].astype(np.int64), golden[f"codes_{n}"].astype(np.int64)) for n in ("ref", "default")
        ]
    exact = []
    inputs = []
    for prompt, codes in cases:
        frames = np.concatenate([reference.semantic_begin + codes[:1], codes])
        columns = torch.from_numpy(np.concatenate([prompt, frames[:, :-1]], axis=1))
        inputs.append((columns, torch.from_numpy(codes)))
        exact.append(logits_of(reference, *inputs[-1]))
    print(
        f"{'scheme':32s} {'semantic KL':>11s} {'top-1':>6s} {'codebooks KL':>12s} {'top-1':>6s} {'frames equal':>12s}"
    )
    for name, (weight, activation) in SCHEMES.items():
        model = load(options.model)
        quantise_(model, weight, activation)
        kl: list[list[float]] = [[], []]
        top: list[list[float]] = [[], []]
        whole = []
        for (columns, codes), truth in zip(inputs, exact, strict=True):
            got = logits_of(model, columns, codes)
            equal = torch.ones(codes.shape[1], dtype=torch.bool)
            for codebook, (g, t) in enumerate(zip(got, truth, strict=True)):
                p, q = t.log_softmax(-1), g.log_softmax(-1)
                kl[codebook > 0].append(float((p.exp() * (p - q)).sum(-1).mean()))
                same = g.argmax(-1) == t.argmax(-1)
                top[codebook > 0].append(float(same.float().mean()))
                equal &= same
            whole.append(float(equal.float().mean()))
        print(
            f"{name:32s} {np.mean(kl[0]):11.5f} {100 * np.mean(top[0]):5.1f}% {np.mean(kl[1]):12.5f} "
            f"{100 * np.mean(top[1]):5.1f}% {100 * np.mean(whole):11.1f}%",
            flush=True,
        )


if __name__ == "__main__":
    with torch.inference_mode():
        main()
