// What the log of a task tells while there is no result yet. Lines end with their facts, which common/text.py adds:
// `62%, 480 rows, …, 1 node at work [ch-s3 {"chunk": 1, "rows": 480}]`.

const FAILED = ["failed", "up_for_retry"];
const LINE = /^(.*) \[ch-s3 (\{.*\})\]$/s;

// The text for people, and the facts; no facts in other lines, whatever they quote.
function parse(line) {
  const [, text, facts] = LINE.exec(line) ?? [];
  try {
    return { text, ...JSON.parse(facts) };
  } catch {
    return {};
  }
}

function readFacts(log, name) {
  return log
    .map(({ timestamp, event }) => ({ at: Date.parse(timestamp) / 1000, ...parse(event) }))
    .filter((facts) => typeof facts[name] === "number");
}

// [{ at: Unix time, rows: of all chunks so far, text }]
export function readProgress(log) {
  const rowsOf = {}; // chunk → rows: each is a query of its own, which begins at 0
  return readFacts(log, "rows").map(({ at, chunk, rows, text }) => {
    rowsOf[chunk] = rows;
    return { at, rows: Object.values(rowsOf).reduce((sum, one) => sum + one, 0), text };
  });
}

// [{ at: Unix time, parts, merges: that are running, waiting: for what; '' if settled }]
export const readParts = (log) => readFacts(log, "parts");

// The task's own checks: of each what was found last.
export function readChecks(log) {
  return Object.values(Object.fromEntries(readFacts(log, "check").map((one) => [one.name, one])));
}

export function readError({ state }, log) {
  const error = log.findLast((event) => event.error_detail?.length)?.error_detail[0];
  return error && FAILED.includes(state) ? `${error.exc_type}: ${error.exc_value}` : "";
}
