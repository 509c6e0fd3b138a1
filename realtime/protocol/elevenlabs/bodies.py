"""The bodies of the HTTP routes' answers, as maps for JSON."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any

from realtime.protocol.elevenlabs.alignment import characters
from realtime.protocol.elevenlabs.replies import ERROR_NAMES
from realtime.protocol.replies import WordTiming

__all__ = ["error_body", "model_entry", "timed_sound", "user_body", "voice_entry"]

MODEL_ID = "kingfisher"


def error_body(code: str, message: str) -> dict[str, Any]:
    return {"detail": {"status": ERROR_NAMES.get(code, code), "message": message}}


def timed_sound(data: bytes, words: Sequence[WordTiming]) -> dict[str, Any]:
    """Sound with the times of its characters, in seconds of the whole; null where none are known. Estimates are marked
    by a field that is ours."""
    chars, starts_ms, durations_ms = characters(words)
    times: dict[str, Any] | None = None
    if chars:
        times = {
            "characters": chars,
            "character_start_times_seconds": [round(ms / 1000, 3) for ms in starts_ms],
            "character_end_times_seconds": [
                round((start_ms + ms) / 1000, 3) for start_ms, ms in zip(starts_ms, durations_ms, strict=True)
            ],
        }
        if any(word.is_estimate for word in words):
            times["is_estimate"] = True
    return {"audio_base64": base64.b64encode(data).decode(), "alignment": times, "normalized_alignment": times}


def voice_entry(name: str, description: str) -> dict[str, Any]:
    return {
        "voice_id": name,
        "name": name,
        "category": "premade",
        "description": description,
        "labels": {},
        "samples": None,
        "preview_url": None,
        "available_for_tiers": [],
        "high_quality_base_model_ids": [MODEL_ID],
        "settings": None,
    }


def model_entry(languages: Iterable[str], max_chars: int) -> dict[str, Any]:
    return {
        "model_id": MODEL_ID,
        "name": "Kingfisher",
        "description": "Whatever model_id a request names, this model speaks.",
        "can_do_text_to_speech": True,
        "can_do_voice_conversion": False,
        "can_be_finetuned": False,
        "can_use_style": False,
        "can_use_speaker_boost": False,
        "serves_pro_voices": False,
        "token_cost_factor": 0.0,
        "requires_alpha_access": False,
        "maximum_text_length_per_request": max_chars,
        "max_characters_request_free_user": max_chars,
        "max_characters_request_subscribed_user": max_chars,
        "languages": [{"language_id": code, "name": code} for code in languages],
    }


def user_body(max_chars: int) -> dict[str, Any]:
    """There are no accounts: constants that let clients go on."""
    subscription = {
        "tier": "self_hosted",
        "status": "active",
        "character_count": 0,
        "character_limit": max_chars,
        "max_character_limit_extension": None,
        "can_extend_character_limit": False,
        "allowed_to_extend_character_limit": False,
        "voice_slots_used": 0,
        "voice_limit": 0,
        "professional_voice_slots_used": 0,
        "professional_voice_limit": 0,
        "voice_add_edit_counter": 0,
        "can_extend_voice_limit": False,
        "can_use_instant_voice_cloning": False,
        "can_use_professional_voice_cloning": False,
        "next_character_count_reset_unix": None,
        "open_invoices": [],
        "has_open_invoices": False,
    }
    return {
        "user_id": "self-hosted",
        "workspace_id": "self-hosted",
        "subscription": subscription,
        "is_new_user": False,
        "can_use_delayed_payment_methods": False,
        "is_onboarding_completed": True,
        "is_onboarding_checklist_completed": True,
        "created_at": 0,
        "seat_type": "workspace_admin",
    }
