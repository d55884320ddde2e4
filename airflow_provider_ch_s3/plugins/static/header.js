// What was loaded, and how it ended.

import { CopyButton } from "./elements.js";
import { countOf, formatCount, formatSeconds } from "./format.js";
import { h } from "./react.js";

function Field({ label, children }) {
  return h("div", null, h("dt", null, label), h("dd", null, children));
}

// One address, or a list of them.
function describeSource(source) {
  const addresses = [source].flat();
  const rest = addresses.length > 1 ? ` and ${addresses.length - 1} more` : "";
  return `${addresses[0]}${rest}`;
}

export function Header({ load: { state, fields, report, links } }) {
  const play = links.ClickHouse;
  const addedColumns = Object.keys(report?.columns_added ?? {});
  return h(
    "header",
    null,
    h(
      "h2",
      null,
      h("span", { className: `state ${state}` }, state.replaceAll("_", " ")),
      h("span", { className: "table" }, fields.table),
    ),
    h(
      "dl",
      null,
      fields.source && h(Field, { label: "Source" }, h("code", null, describeSource(fields.source))),
      report && h(Field, { label: "Mode" }, h("code", null, report.load_mode)),
      addedColumns.length > 0 && h(Field, { label: "Columns added" }, h("code", null, addedColumns.join(", "))),
      h(Field, { label: "Connection" }, h("code", null, fields.clickhouse_conn_id)),
      report?.query_id &&
        h(
          Field,
          { label: "Query id" },
          h("code", null, report.query_id),
          h(CopyButton, { text: report.query_id, what: "the query id" }),
        ),
      play && h(Field, { label: "ClickHouse" }, h("a", { href: play, target: "_blank", rel: "noreferrer" }, "open")),
    ),
  );
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
    return h("pre", { className: "outcome bad", role: "alert" }, error);
  }
  if (!report) {
    const soFar = progress.at(-1)?.text ?? "The report comes when the load ends.";
    const text = isOver ? "No report: the task returned none." : soFar;
    return h("p", { className: "outcome" }, text);
  }
  if (!report.query_id) {
    return h("p", { className: "outcome" }, `Nothing new: ${report.checks.join("; ")}.`);
  }
  return h("p", { className: `outcome ${state === "success" ? "good" : ""}` }, describeLoad(report));
}
