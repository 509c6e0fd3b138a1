// Raw Opus packets -> samples, by the browser's own decoder where it has one.

const CONFIG = Object.freeze({ codec: "opus", sampleRate: 48_000, numberOfChannels: 1 });

/** Whether this browser decodes Opus packets. A decoder may exist and not know Opus; so it is asked. */
export async function canDecodeOpus() {
  try {
    return (await globalThis.AudioDecoder.isConfigSupported(CONFIG)).supported === true;
  } catch {
    return false; // no AudioDecoder, as on insecure origins, or one that refuses the question
  }
}

/** Decodes in order; `onSamples(Float32Array)` gets 48 kHz mono. */
export class OpusDecoder {
  #decoder;
  #onSamples;
  #packets = 0;

  constructor(onSamples, onError) {
    this.#onSamples = onSamples;
    this.#decoder = new AudioDecoder({ output: (data) => this.#output(data), error: onError });
    this.#decoder.configure(CONFIG);
  }

  decode(packets) {
    for (const data of packets) {
      const timestamp = this.#packets++ * 20_000; // µs; only their order matters here
      this.#decoder.decode(new EncodedAudioChunk({ type: "key", timestamp, data }));
    }
  }

  /** Resolves when everything has come out; rejects if `discard` came between. */
  async finish() {
    await this.#decoder.flush();
  }

  /** Forget what has not come out, and the decoder's memory of the past. */
  discard() {
    this.#decoder.reset();
    this.#decoder.configure(CONFIG);
  }

  close() {
    if (this.#decoder.state !== "closed") this.#decoder.close();
  }

  #output(data) {
    const samples = new Float32Array(data.numberOfFrames);
    data.copyTo(samples, { planeIndex: 0, format: "f32-planar" });
    data.close();
    this.#onSamples(samples);
  }
}
