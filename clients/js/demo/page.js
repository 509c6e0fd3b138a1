// The demo page: one client, one player, and what they tell.

import { Client, ConnectRefused, Player, Speaker } from "../kingfisher.js";
import { Waveform } from "./waveform.js";
import { wordByWord } from "./words.js";

const LOG_LINES = 200;
const began = performance.now();
const $ = (id) => document.getElementById(id);

const player = await Player.open();
const waveform = new Waveform($("waveform"), player.analyser);
let client;
let speaker;
let apiKey = null;

/** Times of the turn under way, in ms of performance.now(). */
let turn = { asked: null, packet: null, sound: null };

// ---- server ----------------------------------------------------------------------------------------------

async function loadVoices() {
  setStatus("waiting", "connecting");
  const response = await fetch("v1/voices", { headers: apiKey ? { Authorization: `Bearer ${apiKey}` } : {} });
  if (response.status === 401) {
    setStatus("failed", "locked");
    $("key-form").hidden = false;
    $("key").focus();
    return;
  }
  if (!response.ok) throw new Error((await response.json()).message);
  const { voices, default: standard } = await response.json();
  const options = voices.map(({ name, description }) => new Option(description ? `${name}: ${description}` : name, name));
  $("voice").replaceChildren(...options);
  $("voice").value = standard;
  $("voice").disabled = $("speak").disabled = false;
  $("key-form").hidden = true;
  connect();
}

/** A socket for the chosen voice: the server prefills it while the user still types. */
function connect() {
  speaker?.interrupt();
  client?.close();
  client = new Client(new URL("v1/tts/live", document.baseURI).href.replace(/^http/, "ws"), {
    apiKey,
    voice: $("voice").value,
  });
  const current = client;
  client.addEventListener("ready", ({ detail }) => {
    setStatus("ready", "ready");
    log(`ready: ${detail.voice}, ${detail.sampleRate} Hz`);
  });
  client.addEventListener("close", () => {
    if (client === current) setStatus("waiting", "closed; the next words open it again");
  });
  speaker = new Speaker(client, player);
  listen(speaker);
  client.connect().catch(showFailure);
}

// ---- speaking --------------------------------------------------------------------------------------------

async function speak() {
  const text = $("text").value;
  if (!text.trim()) return;
  player.unlock(); // in the click, or the browser keeps silent
  if (speaker.isSpeaking || player.isPlaying) interrupt();
  turn = { asked: null, packet: null, sound: null };
  for (const id of ["first-packet", "first-sound", "server"]) $(id).textContent = "–";
  $("split").hidden = true;
  $("interrupt").disabled = false;
  const isWhole = new FormData($("form")).get("pace") === "whole";
  try {
    const finish = await speaker.say(timed(isWhole ? [text] : wordByWord(text)));
    if (finish === null) return;
    showBuffer();
    $("server").textContent = milliseconds(ownTime(finish.ttfaMs));
    log(`finish: ${(finish.usage.audio_ms / 1000).toFixed(2)} s of speech for ${finish.usage.chars} characters`);
    await player.drained();
    if (!speaker.isSpeaking) $("interrupt").disabled = true;
  } catch (error) {
    showFailure(error);
  }
}

/** Note when the first piece is on its way. */
async function* timed(pieces) {
  for await (const piece of pieces) {
    turn.asked ??= performance.now();
    yield piece;
  }
}

function interrupt() {
  const hadStream = speaker.isSpeaking;
  const heardMs = speaker.interrupt();
  $("interrupt").disabled = true;
  log(`interrupt after ${(heardMs / 1000).toFixed(2)} s${hadStream ? "" : "; everything was sent already"}`);
}

// ---- what is told ----------------------------------------------------------------------------------------

function listen(speaker) {
  speaker.addEventListener("audio", () => {
    showBuffer();
    if (turn.packet !== null || turn.asked === null) return;
    turn.packet = performance.now();
    $("first-packet").textContent = milliseconds(turn.packet - turn.asked);
    log("first audio");
  });
  speaker.addEventListener("cancelled", ({ detail }) => {
    $("heard").textContent = detail.spokenText;
    $("unheard").textContent = detail.remainingText;
    $("split").hidden = false;
    log(`cancelled: ${JSON.stringify(detail.spokenText)} was spoken`);
  });
  speaker.addEventListener("warning", ({ detail }) => log(`warning: ${detail.message}`));
}

player.addEventListener("started", () => {
  waveform.run();
  if (turn.sound !== null || turn.asked === null) return;
  turn.sound = performance.now();
  $("first-sound").textContent = milliseconds(turn.sound - turn.asked);
});
player.addEventListener("report", showBuffer);
player.addEventListener("suspended", () => {
  $("suspended").hidden = false;
  log("the browser holds the sound back");
});
player.addEventListener("warning", ({ detail }) => log(detail, "bad"));

function showBuffer() {
  $("lead").textContent = milliseconds(player.queuedMs);
  $("lead-meter").value = player.queuedMs;
  $("gaps").textContent = player.underruns;
}

/** The server's part of the time to first audio: all but waiting for enough text. */
function ownTime(ttfaMs) {
  if (ttfaMs === null) return undefined;
  const { total, ...parts } = ttfaMs;
  return Math.min(total, Object.values(parts).reduce((sum, part) => sum + part, 0));
}

function milliseconds(value) {
  return value === undefined ? "–" : `${Math.round(value)} ms`;
}

function setStatus(state, text) {
  $("status").dataset.state = state;
  $("status").textContent = text;
}

function showFailure(error) {
  $("interrupt").disabled = true;
  log(error.message, "bad");
  setStatus("failed", error instanceof ConnectRefused ? error.code : "failed");
}

function log(text, kind = "") {
  const line = document.createElement("li");
  const time = document.createElement("time");
  time.textContent = `${((performance.now() - began) / 1000).toFixed(2)} s`;
  const words = document.createElement("span");
  words.textContent = text;
  words.className = kind;
  line.append(time, words);
  $("log").append(line);
  if ($("log").childElementCount > LOG_LINES) $("log").firstElementChild.remove();
  $("log").scrollTop = $("log").scrollHeight;
}

// ---- controls --------------------------------------------------------------------------------------------

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  speak();
});
$("interrupt").addEventListener("click", interrupt);
document.addEventListener("keydown", ({ key }) => {
  if (key === "Escape" && !$("interrupt").disabled) interrupt();
});
$("voice").addEventListener("change", connect);
$("unlock").addEventListener("click", async () => {
  await player.unlock();
  $("suspended").hidden = true;
});
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  apiKey = $("key").value;
  loadVoices().catch(showFailure);
});

$("format").textContent = player.format.format === "pcm" ? "PCM" : "Opus";
loadVoices().catch(showFailure);
