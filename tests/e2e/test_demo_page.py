"""The demo page in a real browser, served by the real server (tones for a voice)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.server_process import ServerProcess, server_process

pytestmark = pytest.mark.browser

DEADLINE_S = 20.0
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=900,1100",
    "--autoplay-policy=document-user-activation-required",
)

PROBE = """
// Remember, by the page's own clock, when sound was first and last heard, and how loud and how high it was.
window.probe = { firstAt: null, heardAt: null, loudest: 0, hz: 0 };
const connect = AudioNode.prototype.connect;
AudioNode.prototype.connect = function (target, ...rest) {
  if (target instanceof AudioDestinationNode) {
    const meter = new AnalyserNode(this.context, { fftSize: 2048 });
    connect.call(this, meter);
    const wave = new Float32Array(256), spectrum = new Float32Array(meter.frequencyBinCount);
    setInterval(() => {
      meter.getFloatTimeDomainData(wave);
      const loudest = Math.max(...wave.map(Math.abs));
      if (loudest < 0.001) return;
      meter.getFloatFrequencyData(spectrum);
      const hz = spectrum.indexOf(Math.max(...spectrum)) * this.context.sampleRate / meter.fftSize;
      const heardAt = performance.now();
      window.probe = { firstAt: window.probe.firstAt ?? heardAt, heardAt, loudest, hz };
    }, 5);
  }
  return connect.call(this, target, ...rest);
};
"""
NO_DECODER = {
    "absent": "delete window.AudioDecoder;",
    "unsupported": "AudioDecoder.isConfigSupported = async () => ({ supported: false });",
    "throws": "AudioDecoder.isConfigSupported = async () => { throw new TypeError('no'); };",
}


class Page:
    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def __getitem__(self, element: str) -> WebElement:
        return self.driver.find_element(By.ID, element)

    def wait(self, condition: Callable[[], object]) -> Any:
        return WebDriverWait(self.driver, DEADLINE_S, poll_frequency=0.02).until(lambda _: condition())

    def say(self, text: str, pace: str = "whole") -> None:
        self["text"].clear()
        self["text"].send_keys(text)
        self.driver.find_element(By.CSS_SELECTOR, f"input[value={pace}]").click()
        self["speak"].click()

    def probe(self) -> dict[str, Any]:
        return self.driver.execute_script("return window.probe")  # type: ignore[no-any-return]

    def hears(self) -> dict[str, Any]:
        """Wait for sound that fills the analyser's window (the first window begins in silence); what it is like."""
        return self.wait(lambda: (p := self.probe())["loudest"] > 0.15 and p)  # type: ignore[no-any-return]

    @property
    def log(self) -> str:
        return self["log"].text

    def trouble(self) -> list[str]:
        """What the browser complains about, blocked resources included."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]


def installed(program: str) -> str:
    path = shutil.which(program)
    assert path is not None, f"{program} is not installed (Debian: apt-get install chromium chromium-driver)"
    return path


@contextmanager
def browser(url: str, script: str = "") -> Iterator[Page]:
    """A page loaded and connected; `script` runs before the page's own."""
    options = webdriver.ChromeOptions()
    options.binary_location = installed("chromium")
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(installed("chromedriver")))
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": PROBE + script})
        driver.get(url)
        yield Page(driver)
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with server_process("--model", "null", "--slots", "8") as running:
        yield running


@pytest.fixture
def page(server: ServerProcess) -> Iterator[Page]:
    with browser(server.http) as page:
        page.wait(lambda: page["status"].text == "ready")
        yield page


SENTENCE = "This is one sentence of a fair length, for a tone that sounds a while."
LONG = " ".join([SENTENCE] * 6)


@pytest.mark.parametrize("pace", ["whole", "words"])
def test_the_page_speaks_and_tells_what_it_measured(page: Page, pace: str) -> None:
    page.say(SENTENCE, pace)
    heard = page.hears()
    assert heard["loudest"] == pytest.approx(0.25, abs=0.05)
    assert heard["hz"] == pytest.approx(300, abs=25)
    page.wait(lambda: "finish:" in page.log)
    for figure in ("first-packet", "first-sound", "server"):
        assert re.fullmatch(r"\d+ ms", page[figure].text), figure
    assert page["format"].text == "Opus"
    page.wait(lambda: page["lead"].text == "0 ms" and not page["interrupt"].is_enabled())
    assert page.trouble() == []


def test_the_chosen_voice_speaks(page: Page) -> None:
    page["voice"].send_keys("high")
    page.wait(lambda: "ready: high" in page.log)
    page.say(SENTENCE)
    assert page.hears()["hz"] == pytest.approx(700, abs=25)


def test_interrupt_is_silence_at_once_and_tells_what_was_heard(page: Page) -> None:
    page.say(LONG)
    page.hears()
    page.wait(lambda: float(page["lead"].text.split()[0]) > 1000)
    script = "document.getElementById('interrupt').click(); return performance.now()"
    interrupted_at = page.driver.execute_script(script)
    page.wait(lambda: page["split"].is_displayed())
    page.wait(lambda: page.driver.execute_script("return performance.now()") > interrupted_at + 1000)
    assert page.probe()["heardAt"] - interrupted_at < 500, "over a second of sound lay in the player"
    heard, unheard = page["heard"].text, page["unheard"].text
    assert f"{heard} {unheard}".strip() == LONG
    assert unheard
    assert page["lead"].text == "0 ms"


def test_speaking_again_interrupts_and_escape_does_too(page: Page) -> None:
    page.say(LONG)
    page.hears()
    page.say(LONG)
    page.wait(lambda: page.log.count("first audio") == 2)
    page["text"].send_keys(Keys.ESCAPE)
    page.wait(lambda: page.log.count("cancelled:") == 2)
    page.say(SENTENCE)
    page.wait(lambda: "finish:" in page.log)
    assert page.trouble() == []


def test_without_a_gesture_the_page_asks_for_one_and_then_plays_from_the_beginning(page: Page) -> None:
    page.driver.execute_script(
        "document.getElementById('text').value = arguments[0];"
        "document.querySelector('input[value=whole]').click(); document.getElementById('speak').click()",
        SENTENCE,
    )
    page.wait(lambda: page["suspended"].is_displayed())
    page.wait(lambda: "finish:" in page.log)
    assert page.probe()["heardAt"] is None
    spoken_ms = 1000 * float(re.findall(r"finish: ([\d.]+) s", page.log)[0])
    assert float(page["lead"].text.split()[0]) == pytest.approx(spoken_ms, abs=100), "everything has come and waits"
    page["unlock"].click()
    page.hears()
    assert not page["suspended"].is_displayed()
    page.wait(lambda: not page["interrupt"].is_enabled())
    probe = page.probe()
    assert probe["heardAt"] - probe["firstAt"] > 0.9 * spoken_ms


@pytest.mark.parametrize("lack", NO_DECODER)
def test_without_an_opus_decoder_the_page_asks_for_pcm(server: ServerProcess, lack: str) -> None:
    with browser(server.http, NO_DECODER[lack]) as page:
        page.wait(lambda: page["status"].text == "ready")
        page.say(SENTENCE)
        assert page.hears()["hz"] == pytest.approx(300, abs=25)
        assert page["format"].text == "PCM"
        warnings = [e for e in page.driver.get_log("browser") if "does not decode Opus" in e["message"]]
        assert len(warnings) == 1
        assert page.trouble() == []


def test_a_locked_server_asks_for_its_key(tmp_path: Any) -> None:
    keys = tmp_path / "keys"
    keys.write_text("good-key\n")
    with (
        server_process("--model", "null", "--api-keys-file", str(keys)) as locked,
        browser(locked.http) as page,
    ):
        page.wait(lambda: page["key"].is_displayed())
        page["key"].send_keys("bad-key" + Keys.ENTER)
        page.wait(lambda: page["status"].text == "locked")
        page["key"].clear()
        page["key"].send_keys("good-key" + Keys.ENTER)
        page.wait(lambda: page["status"].text == "ready")
        assert not page["key"].is_displayed()
        page.say(SENTENCE)
        page.hears()
        assert "good-key" not in locked.log


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"apiKey": "bad-key"}, "ConnectRefused 401 bad_key"),
        ({"apiKey": "good-key", "voice": "nobody"}, "ConnectRefused 404 unknown_voice"),
        ({"apiKey": "good-key", "voice": "low"}, "connected"),
        ({"apiKey": "good/key=", "voice": "low"}, "connected"),
    ],
    ids=["bad key", "unknown voice", "good", "a key that is no subprotocol"],
)
def test_a_browser_learns_why_a_handshake_was_refused(tmp_path: Any, options: dict[str, str], error: str) -> None:
    keys = tmp_path / "keys"
    keys.write_text("good-key\ngood/key=\n")
    script = """
        const [options, done] = arguments;
        import("/client/kingfisher.js").then(async ({ Client }) => {
          const client = new Client(location.origin.replace("http", "ws") + "/v1/tts/live", options);
          try { await client.connect(); done("connected"); }
          catch (error) { done(`${error.name} ${error.status} ${error.code}`); }
        });
    """
    with (
        server_process("--model", "null", "--api-keys-file", str(keys)) as locked,
        browser(locked.http) as page,
    ):
        page.driver.set_script_timeout(DEADLINE_S)
        assert page.driver.execute_async_script(script, options) == error


def test_a_player_that_stands_still_takes_30_s_and_then_waits_until_it_is_interrupted(page: Page) -> None:
    script = """
        const done = arguments[0];
        import("/client/kingfisher.js").then(async ({ Player }) => {
          const player = await Player.open();
          const second = { utterance: 1, packets: [], data: new Uint8Array(2 * 48000) };
          let taken = 0;
          const feeding = (async () => { for (; taken < 60; taken++) await player.push(second); })();
          await new Promise((resolve) => setTimeout(resolve, 500));
          const full = { taken, queuedMs: player.queuedMs, state: player.state };
          player.interrupt();
          await new Promise((resolve) => setTimeout(resolve, 0));
          done({ ...full, movedOn: taken > full.taken });
        });
    """
    page.driver.set_script_timeout(DEADLINE_S)
    result = page.driver.execute_async_script(script)
    assert result == {"taken": 30, "queuedMs": 31_000, "state": "suspended", "movedOn": True}
