// What was loaded, and how it ended.

import { CopyButton } from "./elements.js";
import { countOf, formatCount, formatSeconds } from "./format.js";
import { html } from "./react.js";

// What became of the rows of a merge.
function describeMerge(merge) {
  return ["inserted", "updated", "deleted", "unchanged", "late"]
    .filter((name) => name in merge)
    .map((name) => `${formatCount(merge[name])} ${name}`)
    .join(", ");
}

// One address, or a list of them.
function describeSource(source) {
  const [first, ...others] = [source].flat();
  return others.length ? `${first} and ${others.length} more` : first;
}

export function Header({ load: { state, fields, report, links } }) {
  const play = links.ClickHouse;
  const columns = Object.keys(report?.columns_added ?? {}).join(", ");
  const merged = describeMerge(report?.merge ?? {});
  const id = report?.query_id;
  const named = html`<span><code>${id}</code><${CopyButton} text=${id} what="the query id" /></span>`;
  const link = html`<a href=${play} target="_blank" rel="noreferrer">open</a>`;
  const code = (text) => html`<code>${text}</code>`;
  const field = (label, content) => html`<div><dt>${label}</dt><dd>${content}</dd></div>`;
  return html`
    <header>
      <h2>
        <span className="state ${state}">${state.replaceAll("_", " ")}</span>
        <span className="table">${fields.table}</span>
      </h2>
      <dl>
        ${fields.source && field("Source", code(describeSource(fields.source)))}
        ${report && field("Mode", code(report.load_mode))}
        ${merged && field("Merged rows", merged)}
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
  const verified = report.checks.length ? ", verified" : ", not verified (staging=False)";
  return (
    `${countOf(report.rows_added, "row")} from ${countOf(report.files_read, "file")}${skipped}` +
    ` in ${formatSeconds(report.seconds)}${rejected}${verified}.`
  );
}

export function Outcome({ load: { state, isOver, report, progress, error } }) {
  if (error) {
    return html`<pre className="outcome bad" role="alert">${error}</pre>`;
  }
  if (!report) {
    const soFar = progress.at(-1)?.text ?? "The report comes when the load ends.";
    return html`<p className="outcome">${isOver ? "No report: the task returned none." : soFar}</p>`;
  }
  if (!report.query_id) {
    return html`<p className="outcome">Nothing new: ${report.checks.join("; ")}.</p>`;
  }
  return html`<p className="outcome ${state === "success" ? "good" : ""}">${describeLoad(report)}</p>`;
}
