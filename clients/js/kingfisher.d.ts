// Types of the Kingfisher client. Times are milliseconds. Events and requests: clients/PROTOCOL.md.

/** Fields of `start.request`; null means the default. Fields of a later server may be added. */
export interface StreamRequest {
  format?: "opus" | "opus_packets" | "pcm" | "wav" | "mp3" | "aac" | "flac" | null;
  /** Hz */
  sample_rate?: number | null;
  /** bit/s */
  opus_bitrate?: number | null;
  mp3_bitrate?: number | null;
  voice?: string | null;
  reference_id?: string | string[] | null;
  references?: Reference[] | Reference[][];
  text?: string;
  /** `speed` 0.5 to 2, at the same pitch; `volume` -20 to 20 dB. */
  prosody?: { speed?: number; volume?: number } | null;
  latency?: "low" | "balanced" | "normal" | null;
  chunk_length?: number | null;
  normalize?: boolean | null;
  language?: string | null;
  temperature?: number | null;
  top_p?: number | null;
  seed?: number | null;
  max_lead_s?: number | null;
  [field: string]: unknown;
}

/** A clip whose voice is to be spoken with, as a file (wav, mp3, flac, ogg …), and what it says. */
export interface Reference {
  audio: Uint8Array;
  text?: string;
}

export interface ReadyEvent {
  type: "ready";
  voice: string;
  sampleRate: number;
  requestId: string;
  limits: Record<string, unknown>;
}

/** All words of a chunk (one piece of text) that are known so far, in seconds from its beginning; it replaces the one before. */
export interface Alignment {
  segments: { text: string; start: number; end: number }[];
  audio_duration: number;
  /** The server's model tells no times: the words share the chunk's by their lengths. */
  is_estimate?: boolean;
}

/**
 * `data` for byte formats, `packets` for `opus_packets`; the other one is empty. The rest is set on
 * `/v1/tts/live/with-timestamp`, where the last event of a chunk may bring its `alignment` and no sound.
 */
export interface AudioEvent {
  type: "audio";
  utterance: number;
  seq: number;
  ptsMs: number;
  durationMs: number;
  data: Uint8Array;
  packets: Uint8Array[];
  /** The chunk's text. */
  content: string;
  alignment: Alignment | null;
  chunkSeq: number;
  /** Where the chunk begins in the stream. */
  chunkOffsetS: number;
}

export interface FlushedEvent {
  type: "flushed";
  seq: number;
  audioMs: number;
}

export interface CancelledEvent {
  type: "cancelled";
  utterance: number;
  spokenText: string;
  remainingText: string;
  audioMs: number;
}

export interface WarningEvent {
  type: "warning";
  code: string;
  message: string;
}

export interface FinishEvent {
  type: "finish";
  usage: Record<string, unknown>;
  /** Time to first audio as the server saw it, in total and by part. */
  ttfaMs: Record<string, number> | null;
  timeMs: number;
}

export type StreamEvent = ReadyEvent | AudioEvent | FlushedEvent | CancelledEvent | WarningEvent | FinishEvent;

/** A text, or pieces of it as they come. */
export type Text = string | Iterable<string> | AsyncIterable<string>;

/** Longest waits; null waits for ever. */
export interface Timeouts {
  /** 10 000 by default. */
  connectMs: number | null;
  /** From the moment audio is owed (`stop`, `flush`) to the first of it. 30 000 by default. */
  firstAudioMs: number | null;
  /** Between two audio events while more is owed. 30 000 by default. */
  audioGapMs: number | null;
  /** From `start` to `finish`. None by default. */
  totalMs: number | null;
}

/**
 * One socket, one stream at a time, any number of streams after one another. Dispatches "ready" (`detail` is the
 * ReadyEvent) when the server holds a warm slot, and "close".
 */
export class Client extends EventTarget {
  /** `voice` is prefilled by the server as soon as the socket opens. */
  constructor(url: string, options?: { apiKey?: string | null; voice?: string | null; timeouts?: Partial<Timeouts> });
  readonly timeouts: Timeouts;
  readonly maxMessageBytes: number;
  /** Handshakes made so far. */
  readonly connects: number;
  /** Rejects with ConnectFailed. Streams connect by themselves; this is for being ready early. */
  connect(): Promise<void>;
  stream(request?: StreamRequest): Promise<Stream>;
  /** Speak a text and yield every event to `finish`. Throws what ended the stream. */
  speak(text: Text, request?: StreamRequest): AsyncGenerator<StreamEvent, void>;
  /** Close the socket; a stream on it ends with an error. */
  close(): void;
}

/** One `start` … `finish`. Iterate it for its events; leaving the loop early gives the stream up. */
export class Stream implements AsyncIterable<StreamEvent> {
  private constructor();
  /** Milliseconds of sound received so far. */
  readonly audioMs: number;
  readonly isFinished: boolean;
  readonly isStopped: boolean;
  /** Appended verbatim: the spaces between words are the caller's. */
  sendText(text: string): void;
  /** Speak what was sent; `flushed` follows its last audio. */
  flush(): void;
  /** No more text; the iteration ends with `finish`. */
  stop(): void;
  /** Barge-in: from here on nothing of the utterance comes out. Text sent afterwards begins the next one. */
  cancel(playedMs?: number | null): void;
  /** End the stream from this side: whoever iterates gets `error`. */
  fail(error: Error): void;
  /** Give the stream up if it is not finished. */
  close(): void;
  [Symbol.asyncIterator](): AsyncGenerator<StreamEvent, void>;
}

/**
 * Audio events -> the loudspeaker of a browser. Dispatches "suspended" (sound waits for `unlock` in a click),
 * "started", "stopped", "report" (about every 21 ms) and "warning" (`detail` is the text).
 */
export class Player extends EventTarget {
  private constructor();
  static open(): Promise<Player>;
  /** The best format that this browser plays, for the request. */
  readonly format: Pick<StreamRequest, "format" | "sample_rate">;
  readonly analyser: AnalyserNode;
  readonly state: AudioContextState;
  readonly isPlaying: boolean;
  readonly queuedMs: number;
  readonly underruns: number;
  /** Sound that playing begins with, now. */
  readonly cushionMs: number;
  playedMs(utterance: number): number;
  /** Call it in a click or key handler. */
  unlock(): Promise<void>;
  /** Resolves when the player can take more. */
  push(event: AudioEvent): Promise<void>;
  /** No more for now: play what is held, however short. */
  end(): Promise<void>;
  /** Resolves when everything was played, or interrupted. */
  drained(): Promise<void>;
  /** Silence, now. Returns the milliseconds of the current utterance that were heard. */
  interrupt(): number;
  close(): Promise<void>;
}

/** A client and a player together. Dispatches each event of its streams under its type, as `detail`. */
export class Speaker extends EventTarget {
  constructor(client: Client, player: Player);
  readonly isSpeaking: boolean;
  /** Resolves when the last sound is with the player; with null if it was interrupted. */
  say(text: Text, request?: StreamRequest): Promise<FinishEvent | null>;
  /** Barge-in. Returns the milliseconds that were heard. */
  interrupt(): number;
}

/** s16le mono PCM, as it came, -> the bytes of a WAV file with true sizes. */
export function wavFile(chunks: Uint8Array[], sampleRate: number): Uint8Array;

export class KingfisherError extends Error {}
export class ConnectFailed extends KingfisherError {}
export class ConnectRefused extends ConnectFailed {
  constructor(status: number, code: string, message: string, retryAfterS?: number | null);
  readonly status: number;
  readonly code: string;
  readonly retryAfterS: number | null;
  readonly isRetryable: boolean;
}
export class StreamError extends KingfisherError {
  /** Milliseconds of the stream's sound that were received. */
  audioMs: number;
}
export class ServerError extends StreamError {
  constructor(code: string, message: string, isFinish?: boolean);
  readonly code: string;
  readonly isFinish: boolean;
}
export class ProtocolError extends StreamError {}
export class StreamBroken extends StreamError {
  constructor(message: string, closeCode?: number | null);
  readonly closeCode: number | null;
}
export class DeadlineExceeded extends StreamError {}
export class MisuseError extends KingfisherError {}
