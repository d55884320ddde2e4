// What the log of a task tells while there is no result yet: the same lines that people read there.

const PROGRESS = /^(?:ch-s3-\S+: )?((?:chunk ([\d,]+) of [^:]*?, )?(?:\d+%, )?([\d,]+) rows?, [\d,]+ rows?\/s, .* at work.*)$/;
const PARTS = /: (?:settled: )?([\d,]+) parts? on [\d,]+ nodes?, ([\d,]+) merges? running(?:.*?; waiting for (.*))?$/;

function number(text) {
  return Number(text.replaceAll(",", ""));
}

function matches(log, pattern) {
  return log
    .map(({ timestamp, event }) => ({ at: Date.parse(timestamp) / 1000, found: pattern.exec(event) }))
    .filter(({ found }) => found);
}

// [{ at: Unix time, rows: of all chunks so far, text }]
export function readProgress(log) {
  const rowsOf = new Map(); // chunk → rows: each is a query of its own, which begins at 0
  return matches(log, PROGRESS).map(({ at, found: [, text, chunk = "1", count] }) => {
    rowsOf.set(chunk, number(count));
    return { at, rows: [...rowsOf.values()].reduce((sum, rows) => sum + rows, 0), text };
  });
}

// [{ at: Unix time, parts, merges: that are running, waiting: why; '' if settled }]
export function readParts(log) {
  return matches(log, PARTS).map(({ at, found: [, parts, merges, waiting = ""] }) => ({
    at,
    parts: number(parts),
    merges: number(merges),
    waiting,
  }));
}

export function readError(log) {
  const error = log.filter((event) => event.error_detail?.length).at(-1)?.error_detail[0];
  return error ? `${error.exc_type}: ${error.exc_value}` : "";
}
