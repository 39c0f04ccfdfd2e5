// Server-sent events: the data of each one. Comments, which keep a silent stream open, are passed over.
// Source: https://html.spec.whatwg.org/multipage/server-sent-events.html, "Interpreting an event stream".

export async function* eventsOf(response: Response): AsyncGenerator<string, void, undefined> {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let data: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return; // an event that is not complete does not count
      const lines = (rest + value).split('\n');
      rest = lines.pop()!;
      for (const line of lines.map((one) => one.replace(/\r$/, ''))) {
        if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
        if (line !== '' || data.length === 0) continue;
        yield data.join('\n');
        data = [];
      }
    }
  } finally {
    await reader.cancel().catch(() => {}); // it broke before
  }
}
