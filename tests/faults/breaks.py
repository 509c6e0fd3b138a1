"""Which line of the code keeps which fault away, what it would say with the fault back, and the test that notices.

Groups and numbers are those of tests/FAULTS.md; what no report had is under a name and 0.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAULTS", "Fault"]


@dataclass(frozen=True, slots=True)
class Fault:
    group: str
    number: int
    file: str
    right: str
    wrong: str
    test: str


FAULTS = (
    Fault(
        "A", 4, "realtime/text/segmenter.py",
        "self._abbreviations, is_final=is_final)", "self._abbreviations, is_final=True)",
        "tests/faults/test_faults_text.py::test_fault_4_a_dot_ends_a_sentence_only_when_what_follows_was_seen",
    ),
    Fault(
        "B", 22, "realtime/audio/resample.py",
        "return self._convert(pcm, last=False) if", "return self._convert(pcm, last=True) if",
        "tests/property/test_audio_laws.py::test_resampling_in_pieces_equals_resampling_at_once",
    ),
    Fault(
        "C", 24, "realtime/text/segmenter.py",
        "        if is_speakable(rest):\n            units", "        if False:\n            units",
        "tests/faults/test_faults_text.py::test_fault_24_the_last_words_are_said_in_their_own_turn",
    ),
    Fault(
        "D", 31, "realtime/protocol/context.py",
        "if self._utterance is None or self._utterance.number != utterance:", "if self._utterance is None:",
        "tests/faults/test_faults_sharing.py"
        "::test_fault_31_nothing_of_the_old_text_is_heard_however_much_of_it_is_on_its_way",
    ),
    Fault(
        "D", 31, "realtime/protocol/context.py",
        "        self._events.append(Cancel(utterance.number))\n        self._begin(stream, is_new=False)\n",
        "        self._begin(stream, is_new=False)\n        self._events.clear()\n",
        "tests/faults/test_faults_sharing.py"
        "::test_fault_31_a_cancel_is_answered_before_the_engine_does_another_thing",
    ),
    Fault(
        "E", 37, "realtime/server/hub.py",
        "self.runtime.send(Close(seat.session))", "pass",
        "tests/e2e/test_server_leaving.py::test_many_clients_that_die_at_random_leave_no_trace",
    ),
    Fault(
        "F", 44, "realtime/scheduler/scheduler.py",
        "order = Prefill(slot, epoch, session.voice, unit.text",
        "order = Prefill(slot, epoch, list(self._sessions.values())[-1].voice, unit.text",
        "tests/integration/test_runtime.py::test_sessions_that_start_together_keep_their_own_voices_from_the_first_sample",
    ),
    Fault(
        "G", 54, "realtime/server/outbox.py",
        "if self._bytes > self._max_bytes:", "if False:",
        "tests/unit/realtime/server/test_server_outbox.py::test_the_bound_counts_what_was_not_sent",
    ),
    Fault(
        "H", 62, "realtime/server/lifecycle.py",
        "ws_ping_interval=config.ping_s", "ws_ping_interval=None",
        "tests/faults/test_faults_network.py::test_fault_62_a_proxy_that_drops_quiet_sockets_never_sees_one",
    ),
    Fault(
        "I", 63, "realtime/audio/wav.py",
        'self._header = b""', "pass",
        "tests/e2e/test_server_live.py::test_wav_has_one_header",
    ),
    Fault(
        "J", 73, "engine/codec/audio_file.py",
        "if duration_s < min_s:", "if False:",
        "tests/unit/engine/test_engine_codec.py::test_a_clip_that_cannot_be_used_says_why",
    ),
    Fault(
        "K", 84, "realtime/server/lifecycle.py",
        "self.force_exit = self.has_failed", "self.force_exit = False",
        "tests/faults/test_faults_access.py::test_fault_84_a_dead_engine_ends_the_process_though_a_client_does_not_read",
    ),
    Fault(
        "L", 88, "realtime/server/lifecycle.py",
        "ws_per_message_deflate=False", "ws_per_message_deflate=True",
        "tests/e2e/test_server_live.py::test_no_compression_is_negotiated_and_pings_are_answered",
    ),
    Fault(
        "M", 94, "engine/runner.py",
        "if prompt_tokens + max_frames > self._backend.context_tokens:", "if False:",
        "tests/integration/test_engine_contract.py::test_a_prompt_that_cannot_fit_is_refused_with_numbers_and_nothing_is_harmed",
    ),
    Fault(
        "N", 101, "clients/python/kingfisher_client/wire.py",
        "return None if is_empty else event", "return event",
        "tests/unit/clients/test_clients_wire.py::test_audio_without_sound_and_unknown_events_are_skipped",
    ),
    Fault(
        "O", 109, "pyproject.toml",
        '"websockets>=15,<18"', '"websockets>=15"',
        "tests/faults/test_faults_installation.py::test_fault_109_the_lowest_websocket_library_is_stated",
    ),
    Fault(
        "A", 1, "realtime/text/segmenter.py",
        "return any(char.isalnum() for char in text)", "return bool(text.strip())",
        "tests/faults/test_faults_text.py::test_fault_1_units_with_nothing_to_say_leave_the_turn_whole",
    ),
    Fault(
        "A", 6, "realtime/text/segmenter.py",
        "        self._buffer += text\n", "        self._buffer += text.strip()\n",
        "tests/property/test_text_laws.py::test_units_depend_on_the_text_alone_never_on_the_messages",
    ),
    Fault(
        "A", 8, "realtime/text/segmenter.py",
        "        return self._take(is_final=False)", "        return self._take(is_final=True)",
        "tests/unit/realtime/text/test_text_segmenter.py::test_tags_are_never_cut_wherever_the_messages_were",
    ),
    Fault(
        "A", 10, "engine/tokenizer.py",
        "tokenizer.encode_special_tokens = True", "tokenizer.encode_special_tokens = False",
        "tests/unit/engine/test_engine_prompt.py::test_text_never_yields_a_control_token",
    ),
    Fault(
        "A", 12, "realtime/text/segmenter.py",
        "            self._buffer = self._buffer[cut:].lstrip()\n",
        "            self._buffer = self._buffer[cut:].lstrip()[:60]\n",
        "tests/faults/test_faults_text.py::test_fault_12_every_word_of_a_long_text_reaches_the_engine",
    ),
    Fault(
        "B", 20, "realtime/audio/pcm.py",
        "self._resampler.push(pcm).tobytes()", "self._resampler.push(pcm).tobytes()[:-1]",
        "tests/unit/realtime/audio/test_audio_pcm.py::test_samples_pass_untouched_at_the_engines_rate",
    ),
    Fault(
        "C", 25, "realtime/scheduler/scheduler.py",
        "            g.end = decoded.frame\n", "            g.end = decoded.frame + 1\n",
        "tests/integration/test_runtime.py::test_n_frames_then_the_end_give_exactly_n_frames_of_sound",
    ),
    Fault(
        "C", 28, "realtime/scheduler/scheduler.py",
        "            if g.known == g.max_frames:\n", "            if False:\n",
        "tests/integration/test_runtime.py::test_a_unit_that_never_stops_is_cut_at_its_limit_and_says_so",
    ),
    Fault(
        "D", 33, "realtime/protocol/context.py",
        "        if stream is None or utterance is None:\n            # It crossed",
        "        if False:\n            # It crossed",
        "tests/unit/realtime/protocol/test_protocol_live.py::test_a_cancel_that_crosses_with_finish_is_answered_and_harms_nothing",
    ),
    Fault(
        "E", 36, "realtime/server/speak.py",
        "            speaking.leave()\n", "            pass\n",
        "tests/faults/test_faults_http.py::test_fault_36_a_request_that_is_dropped_ends_its_speech",
    ),
    Fault(
        "E", 39, "realtime/server/lifecycle.py",
        "ws_ping_timeout=config.ping_s", "ws_ping_timeout=None",
        "tests/faults/test_faults_network.py::test_fault_39_a_peer_behind_a_dead_network_is_noticed",
    ),
    Fault(
        "F", 43, "realtime/server/hub.py",
        "SessionId(next(self._ids))", "SessionId(1)",
        "tests/faults/test_faults_sharing.py::test_fault_43_an_id_of_the_clients_is_only_a_label",
    ),
    Fault(
        "F", 50, "realtime/server/hub.py",
        "            if len(self._seats) + waiting >= self.config.max_sessions:\n", "            if False:\n",
        "tests/e2e/test_server_admission.py::test_one_session_more_than_the_limit_is_refused_and_those_inside_go_on",
    ),
    Fault(
        "F", 51, "realtime/scheduler/scheduler.py",
        "waiting.sort(key=lambda s: s.queued_since_s or 0.0)", "waiting.sort(key=lambda s: -(s.queued_since_s or 0.0))",
        "tests/faults/test_faults_sharing.py::test_fault_51_one_slot_is_shared_in_the_order_of_asking",
    ),
    Fault(
        "F", 53, "engine/voices.py",
        "frozen.flags.writeable = False", "frozen.flags.writeable = True",
        "tests/unit/engine/test_engine_voices.py::test_codes_are_read_only_and_the_key_covers_every_codebook",
    ),
    Fault(
        "I", 64, "realtime/server/routes/fish.py",
        "yield wav_header(rate_hz, len(sound)) + sound", "yield wav_header(rate_hz) + sound",
        "tests/faults/test_faults_http.py::test_fault_64_a_whole_wav_states_its_true_sizes",
    ),
    Fault(
        "I", 67, "realtime/audio/ogg.py",
        "self._granule - trimmed_granules", "self._granule",
        "tests/unit/realtime/audio/test_audio_ogg.py::test_the_decoded_length_is_the_length_that_went_in",
    ),
    Fault(
        "J", 70, "engine/codec/audio_file.py",
        "if samples.shape[1] > 1:", "if False:",
        "tests/unit/engine/test_engine_codec.py::test_inverted_stereo_does_not_cancel",
    ),
    Fault(
        "J", 71, "engine/codec/audio_file.py",
        "soundfile.SoundFile(io.BytesIO(data))", "soundfile.SoundFile(data)",
        "tests/faults/test_faults_installation.py::test_fault_71_bytes_that_look_like_a_path_open_no_file",
    ),
    Fault(
        "J", 74, "engine/codec/audio_file.py",
        "if duration_s > max_s:", "if False:",
        "tests/unit/engine/test_engine_codec.py::test_a_clip_that_cannot_be_used_says_why",
    ),
    Fault(
        "J", 75, "engine/voices.py",
        "if len(transcript) > MAX_TRANSCRIPT_CHARS:", "if False:",
        "tests/unit/engine/test_engine_voices.py::test_a_transcript_has_a_limit",
    ),
    Fault(
        "J", 77, "engine/runner.py",
        "key, tokens = request.voice.key, prefix", "key, tokens = (request.voice.key[0], b\"\"), prefix",
        "tests/unit/engine/test_engine_runner.py::test_voices_that_share_their_first_codebook_do_not_share_a_prefix",
    ),
    Fault(
        "K", 78, "realtime/server/limits.py",
        "if self._max_open and use.open >= self._max_open:", "if False:",
        "tests/unit/realtime/server/test_server_limits.py::test_a_key_has_so_many_open_and_no_more_until_one_is_over",
    ),
    Fault(
        "K", 80, "realtime/server/body.py",
        "if len(body) > max_bytes:", "if False:",
        "tests/faults/test_faults_http.py::test_fault_80_a_body_over_the_limit_names_it",
    ),
    Fault(
        "K", 81, "realtime/protocol/contexts.py",
        "except (msgspec.MsgspecError, RecursionError, ValueError) as error:", "except KeyError as error:",
        "tests/faults/test_faults_http.py::test_fault_81_frames_of_junk_end_or_are_told_and_nobody_else_notices",
    ),
    Fault(
        "K", 82, "realtime/voices/folder.py",
        "        if not NAME.fullmatch(name):\n", "        if False:\n",
        "tests/unit/realtime/voices/test_voices_folder.py::test_names_that_climb_are_refused",
    ),
    Fault(
        "M", 91, "realtime/server/hub.py",
        "return self._runtime is not None and not self.is_failed and not self._is_draining",
        "return not self.is_failed and not self._is_draining",
        "tests/e2e/test_server_admission.py::test_until_the_model_is_loaded_sockets_are_refused_and_pages_answer",
    ),
    Fault(
        "N", 104, "clients/python/kingfisher_client/deadlines.py",
        "            self._since_s, self._has_audio = now_s, False\n", "            pass\n",
        "tests/e2e/test_client_faults.py::test_a_server_that_goes_quiet_is_a_timeout_and_the_next_stream_works",
    ),
    Fault(
        "N", 105, "realtime/server/tokens.py",
        "if signers and int(parts[1], 16) > now_s else None", "if signers else None",
        "tests/unit/realtime/server/test_server_tokens.py::test_a_token_counts_as_its_key_until_it_expires",
    ),
)  # fmt: skip

# Of what no report had, and of the scheduler's model.
FAULTS += (
    Fault(
        "handshake", 0, "realtime/server/handshake.py",
        "        if self._is_socket:\n", "        if False:\n",
        "tests/unit/realtime/server/test_server_handshake.py::test_who_is_waited_for_and_how_long",
    ),
    Fault(
        "flood", 0, "realtime/server/frames.py",
        "            self._transport.pause_reading()\n", "            pass\n",
        "tests/unit/realtime/server/test_server_frames.py::test_after_a_full_read_it_is_the_others_turn",
    ),
    Fault(
        "flood", 0, "realtime/server/frames.py",
        "elif len(inner.frames) > MAX_FRAGMENTS and not inner.close_sent:", "elif False:",
        "tests/faults/test_faults_floods.py::test_fragments_without_content_end_the_socket",
    ),
    Fault(
        "flood", 0, "realtime/server/frames.py",
        "if self._transport.get_write_buffer_size() > self._max_unsent_bytes:", "if False:",
        "tests/faults/test_faults_floods.py::test_pings_of_a_client_that_does_not_read_end_the_socket",
    ),
    Fault(
        "flood", 0, "realtime/server/guards.py",
        "            if self._held_bytes + size > self._max_bytes:\n", "            if False:\n",
        "tests/faults/test_faults_floods.py::test_large_bodies_held_half_sent_are_refused_beyond_a_bound",
    ),
    Fault(
        "flood", 0, "realtime/protocol/fish/wire.py",
        "        return None if decoder is None else decoder.decode(frame)\n",
        "        return None if decoder is None else msgspec.convert(msgspec.msgpack.decode(frame), _KINDS[event])\n",
        "tests/unit/realtime/protocol/test_protocol_wire.py::test_what_is_not_read_never_becomes_an_object",
    ),
    Fault(
        "forms", 0, "realtime/server/forms.py",
        "    if charset.lower() not in CHARSETS:\n", "    if False:\n",
        "tests/unit/realtime/server/test_server_forms.py::test_only_utf_8_is_read",
    ),
    Fault(
        "owners", 0, "realtime/server/guest.py",
        'return record.owner in ("", self.owner)', "return True",
        "tests/e2e/test_voice_owners.py::test_only_its_owner_changes_or_deletes_a_voice",
    ),
    Fault(
        "owners", 0, "realtime/voices/library.py",
        'record.visibility == "private" and record.owner not in ("", self._owner)', "False",
        "tests/e2e/test_voice_owners.py::test_what_others_may_do_with_a_voice",
    ),
    Fault(
        "flood", 0, "realtime/protocol/openai/realtime.py",
        "if len(text) + sum(map(len, self._waiting.values())) > MAX_WAITING_CHARS:", "if False:",
        "tests/unit/realtime/protocol/test_protocol_openai.py"
        "::test_text_that_waits_has_a_bound_and_the_socket_goes_on",
    ),
    Fault(
        "flood", 0, "realtime/server/spoken.py",
        "        if size > MAX_WHOLE_BYTES:\n", "        if False:\n",
        "tests/unit/realtime/server/test_server_speak.py::test_what_is_kept_whole_has_a_bound",
    ),
    Fault(
        "clips", 0, "realtime/server/cloning.py",
        "asyncio.timeout(ENCODE_S)", "asyncio.timeout(None)",
        "tests/unit/realtime/server/test_server_hub.py::test_the_wait_for_others_clips_has_a_bound",
    ),
    Fault(
        "clips", 0, "realtime/voices/clips.py",
        "if key not in self._recent and (codes :=", "if False and (codes :=",
        "tests/unit/realtime/voices/test_voices_library.py::test_a_clip_that_is_known_waits_for_nobody_elses",
    ),
    Fault(
        "drain", 0, "realtime/server/lifecycle.py",
        '    threading.Thread(target=run, name="kingfisher-load", daemon=True).start()\n',
        "    await asyncio.to_thread(run)\n",
        "tests/e2e/test_server_lifecycle.py::test_a_server_that_is_told_to_end_does_not_wait_for_its_model",
    ),
    Fault(
        "owners", 0, "realtime/voices/library.py",
        "            self._check_free(record.id)\n            if len", "            if len",
        "tests/e2e/test_voice_owners.py::test_of_two_keys_that_add_a_name_at_once_one_has_it",
    ),
    Fault(
        "flood", 0, "realtime/protocol/timings.py",
        "    if sum(counts[name] for name in names) > MAX_PAIRS:\n", "    if False:\n",
        "tests/unit/realtime/protocol/test_protocol_timings.py"
        "::test_a_text_that_repeats_itself_is_not_weighed_word_against_word",
    ),
    Fault(
        "scheduler", 0, "realtime/scheduler/scheduler.py",
        "        if session.slot is not None:\n            self._give_up_slot(session)",
        "        if session.slot is not None and not session.is_warm:\n            self._give_up_slot(session)",
        "tests/property/test_scheduler_laws.py::TestScheduler",
    ),
    Fault(
        "scheduler", 0, "realtime/scheduler/scheduler.py",
        "order = Prefill(slot, epoch, session.voice, unit.text",
        "order = Prefill(slot, epoch, list(self._sessions.values())[-1].voice, unit.text",
        "tests/property/test_scheduler_laws.py::test_sessions_side_by_side_are_each_said_in_their_own_voice",
    ),
    Fault(
        "scheduler", 0, "realtime/scheduler/scheduler.py",
        "elif now >= (session.queued_since_s or 0.0) + self._queue_s:", "elif False:",
        "tests/property/test_scheduler_laws.py::TestSchedulerWithABoundedWait",
    ),
    Fault(
        "tls", 0, "realtime/server/tls.py",
        "                ssl_handshake_timeout=self._handshake_s,\n", "",
        "tests/faults/test_faults_tls.py::test_a_handshake_that_is_not_finished_has_an_end",
    ),
    Fault(
        "tls", 0, "realtime/server/tls.py",
        "        make_room(self._connections)\n", "",
        "tests/faults/test_faults_tls.py::test_unfinished_handshakes_are_bounded_and_keep_nobody_out",
    ),
    Fault(
        "tls", 0, "realtime/server/tls.py",
        "            transport.set_write_buffer_limits(UNSENT_BYTES)\n", "",
        "tests/faults/test_faults_tls.py::test_sound_over_tls_is_handed_over_as_it_is_taken",
    ),
    Fault(
        "tls", 0, "realtime/server/lifecycle.py",
        'if hasattr(socket, "TCP_USER_TIMEOUT"):', "if False:",
        "tests/faults/test_faults_tls.py::test_an_answer_that_nobody_takes_has_an_end",
    ),
)  # fmt: skip
