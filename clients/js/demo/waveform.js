// A scrolling waveform of what an AnalyserNode hears.

const COLUMN_PX = 2;
/** Frames of silence after which drawing rests. */
const REST_AFTER = 90;

export class Waveform {
  #canvas;
  #analyser;
  #samples;
  #peaks = [];
  #quiet = REST_AFTER;

  constructor(canvas, analyser) {
    this.#canvas = canvas;
    this.#analyser = analyser;
    this.#samples = new Float32Array(analyser.fftSize);
    new ResizeObserver(() => this.#draw()).observe(canvas);
  }

  /** Draw until there is silence again. */
  run() {
    if (this.#quiet < REST_AFTER) return;
    this.#quiet = 0;
    requestAnimationFrame(() => this.#step());
  }

  #step() {
    this.#analyser.getFloatTimeDomainData(this.#samples);
    const recent = this.#samples.subarray(this.#samples.length >> 1);
    const peak = recent.reduce((highest, value) => Math.max(highest, Math.abs(value)), 0);
    this.#peaks.push(peak);
    this.#quiet = peak > 0 ? 0 : this.#quiet + 1;
    this.#draw();
    if (this.#quiet < REST_AFTER) requestAnimationFrame(() => this.#step());
  }

  #draw() {
    const canvas = this.#canvas;
    const scale = globalThis.devicePixelRatio;
    canvas.width = canvas.clientWidth * scale;
    canvas.height = canvas.clientHeight * scale;
    const columns = Math.ceil(canvas.width / (COLUMN_PX * scale));
    this.#peaks = this.#peaks.slice(-columns);
    const pen = canvas.getContext("2d");
    pen.fillStyle = getComputedStyle(canvas).color;
    const middle = canvas.height / 2;
    this.#peaks.forEach((peak, i) => {
      const height = Math.max(scale, peak * canvas.height);
      const x = canvas.width - (this.#peaks.length - i) * COLUMN_PX * scale;
      pen.fillRect(x, middle - height / 2, (COLUMN_PX - 0.5) * scale, height);
    });
  }
}
