// Everything the client throws, as one tree.
//
// KingfisherError
// ├── ConnectFailed         no connection: wrong address, no server, time-out
// │   └── ConnectRefused    the server said no at the handshake: `status`, `code`, `retryAfterS`
// ├── StreamError           a stream ended before its time; `audioMs` of sound had come
// │   ├── ServerError       the server ended it: `code` (clients/PROTOCOL.md, "Errors and close codes")
// │   ├── ProtocolError     the server sent what is not this protocol
// │   ├── StreamBroken      the socket ended without `finish`: `closeCode`
// │   └── DeadlineExceeded  no audio, no further audio, or no end in time
// └── MisuseError           the call makes no sense here, or is over a limit that the message names

export class KingfisherError extends Error {
  get name() {
    return this.constructor.name;
  }
}

export class ConnectFailed extends KingfisherError {}

export class ConnectRefused extends ConnectFailed {
  constructor(status, code, message, retryAfterS = null) {
    super(`${status} ${code}: ${message}`);
    this.status = status;
    this.code = code;
    this.retryAfterS = retryAfterS;
  }

  /** Only overload passes by itself; a wrong key or voice does not. */
  get isRetryable() {
    return this.status === 429 || this.status === 503;
  }
}

export class StreamError extends KingfisherError {
  /** Milliseconds of the stream's sound that were received. */
  audioMs = 0;
}

export class ServerError extends StreamError {
  /** `isFinish`: it came as the `finish` of the stream, and the socket can be used again. */
  constructor(code, message, isFinish = false) {
    super(`${code}: ${message}`);
    this.code = code;
    this.isFinish = isFinish;
  }
}

export class ProtocolError extends StreamError {}

export class StreamBroken extends StreamError {
  constructor(message, closeCode = null) {
    super(message);
    this.closeCode = closeCode;
  }
}

export class DeadlineExceeded extends StreamError {}

export class MisuseError extends KingfisherError {}
