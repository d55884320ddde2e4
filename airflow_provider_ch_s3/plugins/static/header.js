// What was loaded, how it ended, and its numbers, each with what the plan expected.

import { secondsOf } from "./charts.js";
import { LoadFailure } from "./failure.js";
import { CopyButton } from "./elements.js";
import { countOf, formatBytes, formatCount, formatSeconds } from "./format.js";
import { html } from "./react.js";

// What became of the rows of a merge, and what the merge has cost; "" for any other load.
const MERGED = ["inserted", "updated", "deleted", "late"];
const countEach = (merge, names) =>
  names.filter((name) => name in merge).map((name) => `${formatCount(merge[name])} ${name}`).join(", ");

function describeRewritten(merge) {
  const rewritten = `${formatBytes(merge.rewritten_bytes)} in ${countOf(merge.rewritten_partitions, "partition")}`;
  return "rewritten_bytes" in merge ? `${countEach(merge, ["unchanged"])}; ${rewritten} rewritten` : "";
}

// Which snapshot of a lake table was loaded.
function describeSnapshot({ id, after, operation, time, changes }) {
  const what = after ? `what was ${changes ? "changed" : "added"} after ${after}` : "all rows";
  return id && [id, operation, time, what].filter(Boolean).join(", ");
}

// One address, or a list of them.
function describeSource(source) {
  const [first, ...others] = [source].flat();
  return others.length ? `${first} and ${others.length} more` : first;
}

export function Header({ load: { state, fields, report, links }, undone }) {
  // It comes from an XCom, which a task may write: it may be a script.
  const play = /^https?:\/\//i.test(links.ClickHouse ?? "") ? links.ClickHouse : undefined;
  const columns = Object.keys(report?.columns_added ?? {}).join(", ");
  const rewritten = describeRewritten(report?.merge ?? {});
  const shown = undone ? "undone" : state;
  const snapshot = describeSnapshot(report?.snapshot ?? {});
  const id = report?.query_id;
  const named = html`<span><code>${id}</code><${CopyButton} text=${id} what="the query id" /></span>`;
  const link = html`<a href=${play} target="_blank" rel="noreferrer">open</a>`;
  const code = (text) => html`<code>${text}</code>`;
  const field = (label, content) => html`<div><dt>${label}</dt><dd>${content}</dd></div>`;
  return html`
    <header>
      <h2>
        <span className="state ${shown}">${shown.replaceAll("_", " ")}</span>
        <span className="table">${fields.table}</span>
      </h2>
      <dl>
        ${fields.source && field("Source", code(describeSource(fields.source)))}
        ${snapshot && field("Snapshot", snapshot)}
        ${report && field("Mode", code(report.load_mode))}
        ${rewritten && field("Merge", rewritten)}
        ${columns && field("Columns added", code(columns))}
        ${field("Connection", code(fields.clickhouse_conn_id))}
        ${id && field("Query id", named)}
        ${play && field("ClickHouse", link)}
      </dl>
    </header>`;
}

function describeLoad(report) {
  const skipped = report.files_skipped ? `, ${formatCount(report.files_skipped)} skipped` : "";
  const rejected = report.rows_rejected ? `, ${countOf(report.rows_rejected, "row")} rejected` : "";
  const held = report.is_held ? `, held in ${report.held_in}: the table was not changed` : ", verified";
  const staged = report.is_validated_only ? ", only validated: the table was not changed" : held;
  const verified = report.checks.length ? staged : ", not verified (mode='direct')";
  const merged = countEach(report.merge ?? {}, MERGED);
  const rows = countOf(report.rows_added, "row");
  return (
    `${merged ? `${merged}: ${rows}` : rows} from ${countOf(report.files_read, "file")}${skipped}` +
    ` in ${formatSeconds(secondsOf(report)[1])}${rejected}${describeWarned(report)}${verified}.`
  );
}

const warnedOf = ({ row_checks: checks }) => (checks ?? []).filter(({ passed }) => !passed);

function describeWarned(report) {
  const names = warnedOf(report).map(({ name }) => name);
  return names.length ? `, ${countOf(names.length, "check")} not fulfilled (${names.join(", ")})` : "";
}

// Amber: the rows are there, and somebody should look. A load that only validated has changed nothing.
function colourOf(state, report) {
  const isOdd = report.rows_rejected > 0 || warnedOf(report).length > 0;
  return isOdd ? "warn" : state === "success" && !report.is_validated_only ? "good" : "";
}

export function Outcome({ load: { state, isOver, report, planned, progress, error }, undone }) {
  if (error) {
    return html`<${LoadFailure} text=${error} />`;
  }
  if (!report) {
    const last = progress.at(-1);
    const soFar = last?.text ?? planned ?? "Planning: looking at the files and the table.";
    const bar = html`<progress aria-label="Progress" value=${last?.done ?? undefined} />`;
    return html`
      <div className="outcome">${isOver ? "No report: the task returned none." : soFar}${!isOver && bar}</div>`;
  }
  if (!report.query_id) {
    return html`<p className="outcome">Nothing new: ${report.checks.join("; ")}.</p>`;
  }
  if (undone) {
    return html`<p className="outcome warn"><b>${undone}</b> ${`The load was: ${describeLoad(report)}`}</p>`;
  }
  return html`<p className="outcome ${colourOf(state, report)}">${describeLoad(report)}</p>`;
}

// [[label, value, ...notes]]
function cardsOf(report) {
  const predicted = report.predicted ?? {};
  const memory = predicted.peak_memory_bytes;
  // Of what takes less than a second, most is not the work that a plan knows.
  const isPredicted = Boolean(predicted.load_seconds) && report.seconds >= 1;
  const expected = (format, number) => isPredicted && `predicted ${format(number ?? 0)}`;
  const rate = report.rows_written / predicted.load_seconds;
  const counted = (count, what) => count > 0 && `${formatCount(count)} ${what}`;
  const listed = report.rows_listed !== null && `${formatCount(report.rows_listed)} in the files`;
  const size = report.size_bytes !== null && `of ${formatBytes(report.size_bytes)} stored`;
  return [
    [
      report.is_validated_only ? "Rows validated" : "Rows",
      formatCount(report.rows_added),
      listed,
      counted(report.rows_rejected, "rejected"),
      Number.isInteger(report.rows_now) && `${formatCount(report.rows_now)} now in the table`,
    ],
    [
      report.is_validated_only ? "Files validated" : "Files loaded",
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
