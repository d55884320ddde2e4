// The numbers of a load, each beside what the plan expected.

import { countOf, formatBytes, formatCount, formatSeconds } from "./format.js";
import { h } from "./react.js";

function Card({ label, value, notes }) {
  return h(
    "div",
    { className: "card" },
    h("dt", null, label),
    h("dd", null, value),
    notes.filter(Boolean).map((note) => h("dd", { key: note, className: "note" }, note)),
  );
}

export function Cards({ report }) {
  const { predicted } = report;
  const isPredicted = Boolean(predicted.load_seconds);
  const expected = (text) => isPredicted && `predicted ${text}`;
  return h(
    "dl",
    { className: "cards" },
    h(Card, {
      label: "Rows",
      value: formatCount(report.rows_added),
      notes: [
        report.rows_listed !== null && `${formatCount(report.rows_listed)} in the files`,
        report.rows_rejected > 0 && `${formatCount(report.rows_rejected)} rejected`,
      ],
    }),
    h(Card, {
      label: "Files loaded",
      value: formatCount(report.files_read),
      notes: [
        `${formatCount(report.files_skipped)} skipped`,
        report.files_too_young > 0 && `${formatCount(report.files_too_young)} too young`,
        report.chunks > 1 && countOf(report.chunks, "chunk"),
      ],
    }),
    h(Card, {
      label: "Read",
      value: formatBytes(report.read_bytes),
      notes: [
        report.size_bytes !== null && `of ${formatBytes(report.size_bytes)}`,
        countOf(report.requests, "request"),
      ],
    }),
    h(Card, {
      label: "Rows a second",
      value: formatCount(report.rows_per_second),
      notes: [expected(formatCount(report.rows_written / predicted.load_seconds))],
    }),
    h(Card, {
      label: "INSERT",
      value: formatSeconds(report.seconds),
      notes: [expected(formatSeconds(predicted.load_seconds ?? 0))],
    }),
    h(Card, {
      label: "Peak memory",
      value: formatBytes(report.peak_memory_bytes),
      notes: ["of a node", expected(formatBytes(predicted.peak_memory_bytes ?? 0))],
    }),
    h(Card, {
      label: "Parts",
      value: formatCount(report.initial_parts),
      notes: ["before merges", expected(formatCount(predicted.initial_parts ?? 0))],
    }),
  );
}
