"""Puts a fault of each group back and shows that its test fails: python -m tests.faults.put_back [GROUP …]

Each runs in a copy of the tree, first as it is (the test must pass) and then with one line changed (it must fail).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


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
        "mark_at(text, index, limit, is_final=is_final)", "mark_at(text, index, limit, is_final=True)",
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
        "tests/unit/realtime/protocol/test_protocol_live.py::test_a_cancel_is_answered_at_once_and_old_sound_is_dropped",
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
        "I", 63, "realtime/audio/pcm.py",
        'self._header + self._held, b"", b""', 'self._header + self._held, b"", self._header',
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
)  # fmt: skip


def passes(tree: Path, test: str) -> bool:
    # The package may be installed from another tree: this one comes first.
    paths = os.pathsep.join([str(tree), str(tree / "clients" / "python")])
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
    run = subprocess.run(command, cwd=tree, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True)
    assert run.returncode in (0, 1), f"{test} could not be run:\n{run.stdout}{run.stderr}"
    return run.returncode == 0


def copy_tree(target: Path) -> None:
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def main(groups: list[str]) -> int:
    is_shown = True
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        copy_tree(tree)
        for fault in FAULTS:
            if groups and fault.group not in groups:
                continue
            path = tree / fault.file
            whole = path.read_text()
            assert whole.count(fault.right) == 1, f"{fault.file} holds {fault.right!r} {whole.count(fault.right)} times"
            before = passes(tree, fault.test)
            path.write_text(whole.replace(fault.right, fault.wrong))
            after = passes(tree, fault.test)
            path.write_text(whole)
            is_shown = is_shown and before and not after
            verdict = "shown" if before and not after else "NOT SHOWN"
            print(f"{fault.group} fault {fault.number}: {verdict} (right: {before}, put back: {after})", flush=True)
    return 0 if is_shown else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
