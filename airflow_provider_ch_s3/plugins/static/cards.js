// The numbers of a load, each with what the plan expected.

import { countOf, formatBytes, formatCount, formatSeconds } from "./format.js";
import { html } from "./react.js";

// [[label, value, ...notes]]
function cardsOf(report) {
  const { predicted } = report;
  const memory = predicted.peak_memory_bytes;
  const isPredicted = Boolean(predicted.load_seconds);
  const expected = (format, number) => isPredicted && `predicted ${format(number ?? 0)}`;
  const rate = report.rows_written / predicted.load_seconds;
  const counted = (count, what) => count > 0 && `${formatCount(count)} ${what}`;
  const listed = report.rows_listed !== null && `${formatCount(report.rows_listed)} in the files`;
  const size = report.size_bytes !== null && `of ${formatBytes(report.size_bytes)}`;
  return [
    ["Rows", formatCount(report.rows_added), listed, counted(report.rows_rejected, "rejected")],
    [
      "Files loaded",
      formatCount(report.files_read),
      `${formatCount(report.files_skipped)} skipped`,
      counted(report.files_too_young, "too young"),
      report.chunks > 1 && countOf(report.chunks, "chunk"),
    ],
    ["Read", formatBytes(report.read_bytes), size, countOf(report.requests, "request")],
    ["Rows a second", formatCount(report.rows_per_second), expected(formatCount, rate)],
    ["INSERT", formatSeconds(report.seconds), expected(formatSeconds, predicted.load_seconds)],
    ["Peak memory", formatBytes(report.peak_memory_bytes), "of a node", expected(formatBytes, memory)],
    ["Parts", formatCount(report.initial_parts), "before merges", expected(formatCount, predicted.initial_parts)],
  ];
}

export function Cards({ report }) {
  const card = ([label, value, ...notes]) => html`
    <div key=${label} className="card">
      <dt>${label}</dt>
      <dd>${value}</dd>
      ${notes.filter(Boolean).map((note) => html`<dd key=${note} className="note">${note}</dd>`)}
    </div>`;
  return html`<dl className="cards">${cardsOf(report).map(card)}</dl>`;
}
