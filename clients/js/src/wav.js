// Received PCM -> a WAV file with true sizes (a stream's own WAV header cannot know them).

/** `chunks`: s16le mono as it came in audio events. Returns the file's bytes. */
export function wavFile(chunks, sampleRate) {
  const size = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  const file = new Uint8Array(44 + size);
  const view = new DataView(file.buffer);
  const ascii = (at, text) => file.set(new TextEncoder().encode(text), at);
  ascii(0, "RIFF");
  view.setUint32(4, 36 + size, true);
  ascii(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); // PCM
  view.setUint16(22, 1, true); // channels
  view.setUint32(24, sampleRate, true);
  view.setUint32(28, sampleRate * 2, true);
  view.setUint16(32, 2, true); // bytes of a sample frame
  view.setUint16(34, 16, true); // bits of a sample
  ascii(36, "data");
  view.setUint32(40, size, true);
  let at = 44;
  for (const chunk of chunks) {
    file.set(chunk, at);
    at += chunk.length;
  }
  return file;
}
