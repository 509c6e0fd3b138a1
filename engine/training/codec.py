"""Training the codec: `python -m engine.training codec`.

One stretch runs for a number of steps or seconds and leaves a checkpoint that the next one goes on from. The
discriminators join after a share of the stretch; encoder, codebooks and decoder all learn until the AR model exists.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.codec import CodecModel
from engine.codec.config import CodecConfig
from engine.training.checkpoint import MeanWeights, chain_of, load_checkpoint, save_checkpoint, save_whole
from engine.training.codec_losses import Discriminators, MelLoss, feature_distance, hinge_fake, hinge_real
from engine.training.fresh_codec import draw_weights
from engine.training.speech import LABEL_SAMPLES, Speech
from engine.training.taps import best_taps
from engine.training.whole_clips import Quantized, WholeClips, quantize, run_as_products

__all__ = ["CodecStretch", "CodecTrainer", "codec_config_of", "encoder_hash", "load_codec", "train_codec"]

MEL, ADVERSARIAL, FEATURES, PHONEMES = 15.0, 1.0, 2.0, 0.5
DECODER = ("decoder.", "quantizer.post_module.", "quantizer.upsample.")
"""Parameters of the half that speaks."""
PHONEME_CLASSES = 256
JUDGED_FRAMES = 10
"""The discriminators see so much of each crop, from a place drawn anew each step: they cost more than the codec."""
REVIVE_EVERY = LOG_EVERY = 100
DEAD_SHARE = 0.05
"""An entry used less than this share of the mean is moved to a latent that was seen."""


@dataclass(frozen=True, slots=True)
class CodecStretch:
    seconds: float
    """Wall time of all its parts together, loading excluded; the learning rate follows it."""
    batch: int = 48
    frames: int = 32
    learning_rate: float = 4e-4
    end_rate: float = 2e-5
    discriminators_from: float = 0.4
    """Share of the stretch without them; 0 once they exist."""
    decoder_only: bool = False
    """Leave encoder and codebooks as they are: codes keep their meaning, so an AR model that exists stays true."""
    seed: int = 1
    steps: int | None = None
    """Counted steps in place of seconds: deterministic, for tests."""


class CodecTrainer:
    def __init__(self, config: CodecConfig, stretch: CodecStretch, device: torch.device) -> None:
        torch.manual_seed(stretch.seed)
        self.config, self.stretch, self.device = config, stretch, device
        self.model = CodecModel(config).to(device)
        self.phonemes = nn.Conv1d(config.latent_dim, 2 * PHONEME_CLASSES, 1).to(device)
        self.critics = Discriminators().to(device)
        self.mel = MelLoss(config.sample_rate).to(device)
        self.context = WholeClips.of(self.model)
        draw_weights(self.model)
        run_as_products(self.model, best_taps(device))
        if device.type == "cuda":
            self.critics.to(memory_format=torch.channels_last)
        self.mean = MeanWeights(self.model, 0.999)
        made = [*self.model.parameters(), *self.phonemes.parameters()]
        if stretch.decoder_only:
            for name, parameter in self.model.named_parameters():
                parameter.requires_grad_(name.startswith(DECODER))
            made = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        options: dict[str, Any] = {"betas": (0.8, 0.99), "weight_decay": 1e-3, "fused": device.type == "cuda"}
        self.optimizer = torch.optim.AdamW(made, lr=stretch.learning_rate, **options)
        self.critic_optimizer = torch.optim.AdamW(self.critics.parameters(), lr=stretch.learning_rate, **options)
        stages = config.codebook_sizes
        self.usage = [torch.ones(size, device=device) for size in stages]
        self.random = torch.Generator(device="cpu").manual_seed(stretch.seed)
        self.steps_done, self.seconds_done = 0, 0.0
        self.log: list[dict[str, float]] = []
        self.earlier: list[dict[str, Any]] = []
        """The stretches that this one goes on from."""

    # ---- state ---------------------------------------------------------------------------------------

    def start_from(self, weights: dict[str, Tensor]) -> None:
        """A codec's weights; the rest begins anew."""
        self.model.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
        self.mean = MeanWeights(self.model, 0.999)

    def load(self, folder: Path) -> None:
        tensors, facts = load_checkpoint(folder)
        self.earlier = chain_of(facts)
        for prefix, module in self._parts():
            state = {n.removeprefix(prefix): t.float() for n, t in tensors.items() if n.startswith(prefix)}
            module.load_state_dict(state)
        self.mean = MeanWeights(self.model, 0.999)

    def save(self, folder: Path, facts: dict[str, Any]) -> None:
        tensors: dict[str, Tensor] = {f"model.{name}": tensor for name, tensor in self.mean.values.items()}
        for prefix, module in self._parts()[1:]:
            tensors |= {prefix + name: tensor for name, tensor in module.state_dict().items()}
        facts = {"stretch": asdict(self.stretch), "config": asdict(self.config), "earlier": self.earlier, **facts}
        save_checkpoint(folder, tensors, facts, torch.float16)

    def pause(self, file: Path) -> None:
        """Everything, for going on as if nothing had been; several times the size of a checkpoint."""
        state = {
            "parts": {prefix: module.state_dict() for prefix, module in self._parts()},
            "mean": self.mean.values,
            "optimizers": [optimizer.state_dict() for optimizer in (self.optimizer, self.critic_optimizer)],
            "random": self.random.get_state(),
            "revived": torch.get_rng_state(),
            "usage": self.usage,
            "steps_done": self.steps_done,
            "seconds_done": self.seconds_done,
            "log": self.log,
            "earlier": self.earlier,
        }
        save_whole(state, file)

    def resume(self, file: Path) -> None:
        state = torch.load(file, map_location=self.device, weights_only=True)
        for prefix, module in self._parts():
            module.load_state_dict(state["parts"][prefix])
        for optimizer, saved in zip((self.optimizer, self.critic_optimizer), state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.mean.values, self.usage = state["mean"], state["usage"]
        self.log, self.earlier = state["log"], state["earlier"]
        self.steps_done, self.seconds_done = state["steps_done"], state["seconds_done"]
        self.random.set_state(state["random"].cpu())
        torch.set_rng_state(state["revived"].cpu())

    def mean_model(self) -> CodecModel:
        """With the mean weights and the engine's own layers, for inference."""
        model = CodecModel(self.config).to(self.device).eval()
        model.load_state_dict(self.mean.values)
        return model

    def _parts(self) -> list[tuple[str, nn.Module]]:
        return [("model.", self.model), ("phonemes.", self.phonemes), ("critics.", self.critics)]

    # ---- one step ------------------------------------------------------------------------------------

    def step(self, wave: Tensor, labels: Tensor, *, with_critics: bool) -> dict[str, Tensor]:
        """wave float [B, N], labels int [B, N / LABEL_SAMPLES]."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            made, bottleneck = self._reconstruct(wave)
        made = made.float()
        losses = {"mel": self.mel(made, wave)}
        total = MEL * losses["mel"]
        if not self.stretch.decoder_only:
            logits = self.phonemes(bottleneck.first).unflatten(1, (2, PHONEME_CLASSES))
            target = labels.view(len(labels), -1, 2).transpose(1, 2)
            losses["commitment"] = bottleneck.commitment
            losses["phonemes"] = F.cross_entropy(logits.transpose(1, 2), target)
            total = total + losses["commitment"] + PHONEMES * losses["phonemes"]
        if with_critics:
            made, wave = self._judged_part(made, wave)
            losses["critics"] = self._teach_critics(made.detach(), wave)
            self.critics.requires_grad_(False)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
                judged = self.critics(made)
                with torch.no_grad():
                    real = self.critics(wave)
            self.critics.requires_grad_(True)
            losses["adversarial"] = -torch.stack([stack[-1].float().mean() for stack in judged]).mean()
            losses["features"] = feature_distance(judged, real)
            total = total + ADVERSARIAL * losses["adversarial"] + FEATURES * losses["features"]
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 10.0, foreach=True)
        self.optimizer.step()
        self.mean.update(self.model)
        self._watch_usage(bottleneck)
        return losses

    def _reconstruct(self, wave: Tensor) -> tuple[Tensor, Quantized]:
        context = self.context.begin(len(wave), wave.device)
        quantizer = self.model.quantizer
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.stretch.decoder_only):
            bottleneck = quantize(quantizer, self.model.encoder(wave[:, None], context), context)
        z = quantizer.post_module(bottleneck.z, context)
        for upsample, block in quantizer.upsample:
            z = block(upsample(z, context), context)
        return self.model.decoder(z, context)[:, 0], bottleneck

    def _judged_part(self, made: Tensor, wave: Tensor) -> tuple[Tensor, Tensor]:
        length = min(JUDGED_FRAMES, self.stretch.frames) * self.config.hop_samples
        places = (wave.shape[1] - length) // self.config.hop_samples + 1
        first = int(torch.randint(places, (), generator=self.random)) * self.config.hop_samples
        return made[:, first : first + length], wave[:, first : first + length]

    def _teach_critics(self, made: Tensor, wave: Tensor) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            verdicts = self.critics(torch.cat([made, wave]))
        rows = len(wave)
        fake = [[f[:rows] for f in stack[-1:]] for stack in verdicts]
        real = [[f[rows:] for f in stack[-1:]] for stack in verdicts]
        loss = hinge_real(real) + hinge_fake(fake)
        self.critic_optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.critics.parameters(), 10.0, foreach=True)
        self.critic_optimizer.step()
        return loss.detach()

    def _watch_usage(self, bottleneck: Quantized) -> None:
        for stage, usage in enumerate(self.usage):
            used = bottleneck.codes[:, stage].flatten()  # `bincount` would wait for the GPU
            counts = torch.zeros_like(usage).scatter_add_(0, used, torch.ones_like(used, dtype=usage.dtype))
            usage.lerp_(counts, 0.01)

    @torch.no_grad()
    def revive(self, bottleneck_latents: list[Tensor]) -> None:
        """Entries that nothing uses are put where latents are."""
        quantizer = self.model.quantizer
        stages = [*quantizer.semantic_quantizer.quantizers, *quantizer.quantizer.quantizers]
        for stage, usage, latents in zip(stages, self.usage, bottleneck_latents, strict=True):
            dead = usage < DEAD_SHARE * usage.mean()
            chosen = latents[torch.randint(len(latents), (len(usage),), device=latents.device)]
            stage.codebook.weight.copy_(torch.where(dead[:, None], chosen, stage.codebook.weight))
            usage.copy_(torch.where(dead, usage.mean(), usage))

    @torch.no_grad()
    def seen_latents(self, wave: Tensor) -> list[Tensor]:
        return self._reconstruct(wave)[1].latents

    @property
    def perplexities(self) -> list[int]:
        shares = [usage / usage.sum() for usage in self.usage]
        return [round(float(torch.exp(-(p * p.clamp(min=1e-9).log()).sum()))) for p in shares]


def batches(speech: Speech, stretch: CodecStretch, random: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Crops at frame boundaries, anywhere in the corpus, at random levels. Nothing waits for the device."""
    hop = 2 * LABEL_SAMPLES
    length = stretch.frames * hop
    places = (len(speech.samples) - length) // hop
    device = speech.samples.device
    within, labels_within = torch.arange(length, device=device), torch.arange(2 * stretch.frames, device=device)
    while True:
        first = torch.randint(places, (stretch.batch,), generator=random).to(device, non_blocking=True)
        gain = torch.empty(stretch.batch).uniform_(-6, 6, generator=random).div(20)
        wave = speech.samples[first[:, None] * hop + within].float() / 32767
        labels = speech.labels[first[:, None] * 2 + labels_within].long()
        yield (wave * (10**gain).to(device, non_blocking=True)[:, None]).clamp(-1, 1), labels


@contextmanager
def tried_convolutions() -> Iterator[None]:
    """cuDNN tries its convolutions for each new shape. Worth it for training, whose shapes are always the same; where
    the teacher speaks and where clips are encoded, each length would be tried anew, so elsewhere it stays off."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@tried_convolutions()
def train_codec(
    trainer: CodecTrainer,
    speech: Speech,
    *,
    until_step: int | None = None,
    until_s: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """The stretch, or its part up to a step or to so many seconds of it. Returns its facts; the log goes to stdout."""
    stretch = trainer.stretch
    source = batches(speech, stretch, trainer.random)
    began = clock() - trainer.seconds_done
    sums: dict[str, Tensor] = {}
    while trainer.steps_done != until_step:
        trainer.seconds_done = clock() - began
        if (done := share_done(trainer)) >= 1 or trainer.seconds_done >= until_s:
            break
        rate = stretch.end_rate + (stretch.learning_rate - stretch.end_rate) * (1 + math.cos(math.pi * done)) / 2
        rate *= min(1.0, (trainer.steps_done + 1) / 100)
        for optimizer in (trainer.optimizer, trainer.critic_optimizer):
            for group in optimizer.param_groups:
                group["lr"] = rate
        wave, labels = next(source)
        for name, loss in trainer.step(wave, labels, with_critics=done >= stretch.discriminators_from).items():
            sums[name] = sums.get(name, 0) + loss.detach()  # type: ignore[assignment]
        trainer.steps_done += 1
        if trainer.steps_done % REVIVE_EVERY == 0 and done < 0.7 and not stretch.decoder_only:
            trainer.revive(trainer.seen_latents(wave))
        if trainer.steps_done % LOG_EVERY == 0:
            row = {name: round(float(value) / LOG_EVERY, 4) for name, value in sums.items()}
            sums = {}
            trainer.log.append({"step": trainer.steps_done, "s": round(trainer.seconds_done, 1), **row})
            print(trainer.log[-1], trainer.perplexities, flush=True)
    return {
        "steps": trainer.steps_done,
        "seconds": round(trainer.seconds_done, 1),
        "log": trainer.log,
        "perplexities": trainer.perplexities,
    }


def share_done(trainer: CodecTrainer) -> float:
    """How much of the stretch is over."""
    stretch = trainer.stretch
    return trainer.seconds_done / stretch.seconds if stretch.steps is None else trainer.steps_done / stretch.steps


def codec_config_of(checkpoint: Path) -> CodecConfig:
    """The shape of the codec in a checkpoint."""
    return _config(load_checkpoint(checkpoint)[1])


def load_codec(checkpoint: Path, device: torch.device) -> tuple[CodecModel, CodecConfig]:
    """The codec in a checkpoint with the engine's own layers, for inference."""
    tensors, facts = load_checkpoint(checkpoint)
    model = CodecModel(config := _config(facts))
    weights = {n.removeprefix("model."): t.float() for n, t in tensors.items() if n.startswith("model.")}
    model.load_state_dict(weights)
    return model.to(device).eval(), config


def encoder_hash(model: CodecModel) -> str:
    """Of all that decides what a code means: codecs with the same one speak the same codes."""
    weights = sorted((n, t) for n, t in model.state_dict().items() if not n.startswith(DECODER))
    digest = hashlib.sha256()
    for name, tensor in weights:
        digest.update(name.encode())
        digest.update(tensor.float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def _config(facts: dict[str, Any]) -> CodecConfig:
    shape = facts["config"]
    return CodecConfig(**{name: tuple(value) if isinstance(value, list) else value for name, value in shape.items()})
