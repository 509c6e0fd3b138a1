"""Settings: the command line over the environment over the defaults, checked once."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from realtime.__main__ import _add_serve
from realtime.config import ServerConfig, SettingError


def test_nothing_given_means_the_defaults() -> None:
    assert ServerConfig.read({}, {}) == ServerConfig()
    assert ServerConfig.read({"port": None, "command": "serve"}, {"HOME": "/root"}) == ServerConfig()


def test_the_command_line_wins_over_the_environment() -> None:
    environment = {"KINGFISHER_PORT": "9000", "KINGFISHER_SLOTS": "3", "KINGFISHER_QUEUE_S": "2.5"}
    config = ServerConfig.read({"port": 9001}, environment)
    assert (config.port, config.slots, config.queue_s) == (9001, 3, 2.5)


def test_every_option_of_the_command_line_can_be_set_in_the_environment() -> None:
    parser = argparse.ArgumentParser()
    _add_serve(parser)
    for option in vars(parser.parse_args([])):
        assert option == "api_keys_file" or hasattr(ServerConfig(), option), option


def test_what_others_read_from_the_environment_does_not_disturb_the_server() -> None:
    environment = {"KINGFISHER_URL": "ws://example", "KINGFISHER_API_KEY": "key", "KINGFISHER_CLIENTS_DIR": "folder"}
    assert ServerConfig.read({}, environment) == ServerConfig()


@pytest.mark.parametrize(
    ("environment", "hint"),
    [
        ({"KINGFISHER_SLOT": "3"}, "KINGFISHER_SLOT is not a setting"),
        ({"KINGFISHER_SLOTS": "three"}, "KINGFISHER_SLOTS is 'three'; expected int"),
        ({"KINGFISHER_SLOTS": "0"}, "slots must be at least 1"),
        ({"KINGFISHER_DRAIN_S": "0"}, "drain_s must be above 0"),
        ({"KINGFISHER_DRAIN_S": "nan"}, "drain_s must be above 0"),
        ({"KINGFISHER_QUIET_DBFS": "0"}, "quiet_dbfs must be under 0"),
        ({"KINGFISHER_PORT": "65536"}, "port must lie between 0 and 65535"),
        ({"KINGFISHER_BACKEND": "tpu"}, "choose"),
        ({"KINGFISHER_LOG_LEVEL": "loud"}, "choose one of debug, info"),
        ({"KINGFISHER_CONTEXT_TOKENS": "-5"}, "context_tokens must be at least 0"),
        ({"KINGFISHER_TLS_CERT": "cert.pem"}, "tls_cert and tls_key go together"),
        ({"KINGFISHER_API_KEYS_FILE": "/no/such/file"}, "key file cannot be read"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(environment: dict[str, str], hint: str) -> None:
    with pytest.raises(SettingError, match=hint):
        ServerConfig.read({}, environment)


def test_keys_come_from_the_environment_or_a_file_and_are_not_shown(tmp_path: Path) -> None:
    assert ServerConfig.read({}, {"KINGFISHER_API_KEYS": "a, b,"}).api_keys == ("a", "b")
    file = tmp_path / "keys"
    file.write_text("# ours\nalpha\n\n  beta  \n")
    config = ServerConfig.read({"api_keys_file": str(file)}, {})
    assert config.api_keys == ("alpha", "beta")
    assert "alpha" not in repr(config)
    file.write_text("anna  alpha\nbeta\n")
    assert ServerConfig.read({"api_keys_file": str(file)}, {}).api_keys == ("anna alpha", "beta")
    file.write_text("anna alpha beta\n")
    with pytest.raises(SettingError, match="the name of its owner and a key"):
        ServerConfig.read({"api_keys_file": str(file)}, {})
    file.write_text("# none\n")
    with pytest.raises(SettingError, match="holds no keys"):
        ServerConfig.read({"api_keys_file": str(file)}, {})
