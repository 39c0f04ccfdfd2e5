// A client that speaks raw HTTP, so that it can leave, break off and dawdle where a library would not.
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

export class Client {
  constructor(port) {
    this.received = Buffer.alloc(0);
    this.ended = null; // how the connection ended: 'end' or an error's code
    this.socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    this.socket.on('data', (bytes) => {
      this.received = Buffer.concat([this.received, bytes]);
      this.wake();
    });
    this.socket.on('end', () => this.end('end'));
    this.socket.on('error', (error) => this.end(error.code));
    this.socket.on('close', () => this.end('end'));
    this.waiting = [];
  }

  wake() {
    for (const go of this.waiting.splice(0)) go();
  }
  end(how) {
    this.ended ??= how;
    this.wake();
  }

  send(bytes) {
    return new Promise((resolve) => this.socket.write(bytes, () => resolve()));
  }
  halfClose() {
    this.socket.end();
  }
  leave(byReset) {
    if (byReset) this.socket.resetAndDestroy();
    else this.socket.destroy();
  }

  // Until `holds()`, or the connection's end. A slow reader stops for `slow` ms again and again.
  async until(holds, slow = 0) {
    while (!holds() && this.ended === null) {
      if (slow > 0) {
        this.socket.pause();
        await pause(slow);
        this.socket.resume();
      }
      if (!holds() && this.ended === null) await new Promise((resolve) => this.waiting.push(resolve));
    }
    return holds();
  }

  // The next reply: {status, headers, body}, or {broken: why} if the connection ended within or before it.
  async reply({ hasBody = true, slow = 0 } = {}) {
    for (;;) {
      let end;
      if (!(await this.until(() => (end = this.received.indexOf('\r\n\r\n')) >= 0, slow)))
        return { broken: `no reply (${this.ended}, ${this.received.length} bytes)` };
      const [first, ...lines] = this.received.subarray(0, end).toString('latin1').split('\r\n');
      const status = Number(/^HTTP\/1\.[01] (\d{3}) /.exec(first)?.[1]);
      if (!status) return { broken: `no HTTP reply: ${first}` };
      this.received = this.received.subarray(end + 4);
      if (status === 100) continue;
      const headers = Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]));
      const reply = { status, headers, body: '' };
      if (!hasBody || status === 204 || status === 304) return reply;
      const body = await this.body(headers, slow);
      return body === null ? { broken: `a cut body (${this.ended}) behind status ${status}` } : { ...reply, body: body.toString() };
    }
  }

  async body(headers, slow) {
    if (headers['transfer-encoding'] === 'chunked') {
      const parts = [];
      for (;;) {
        let end;
        if (!(await this.until(() => (end = this.received.indexOf('\r\n')) >= 0, slow))) return null;
        const bytes = parseInt(this.received.subarray(0, end).toString(), 16);
        if (!(await this.until(() => this.received.length >= end + 4 + bytes, slow))) return null;
        parts.push(this.received.subarray(end + 2, end + 2 + bytes));
        this.received = this.received.subarray(end + 4 + bytes);
        if (bytes === 0) return Buffer.concat(parts);
      }
    }
    const length = headers['content-length'];
    if (length === undefined) {
      await this.until(() => false, slow);
      return this.ended === 'end' ? this.received : null;
    }
    if (!(await this.until(() => this.received.length >= Number(length), slow))) return null;
    const body = this.received.subarray(0, Number(length));
    this.received = this.received.subarray(Number(length));
    return body;
  }
}
