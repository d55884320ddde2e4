// What was verified, the partitions, the files, the settings with their reasons, and the SQL.

import { Bar, CopyButton, Section, Table, TableSection, useFirst } from "./elements.js";
import { countOf, formatCount } from "./format.js";
import { LoadFiles } from "./loads_files.js";
import { html, useState } from "./react.js";

const FIRST_PARTITIONS = 20;
const LEFT_OUT = { value: "–", origin: "left out" };

function describeCheck({ name, expression, left, comparison, right, note, error }) {
  if (error) {
    return `${name}: ${expression} could not be computed: ${error}`;
  }
  const [one, other] = [left, right].map((value) => value ?? "NULL");
  const values = comparison ? ` (${one} ${comparison} ${other})` : left ? ` is ${left}` : "";
  return `${name}: ${expression}${values}${note ? `, ${note}` : ""}`;
}

// What was verified, and the task's own checks: passed, not fulfilled with a warning, or failed.
export function Checks({ verified, checks }) {
  const own = checks.map((check) => [check.passed ? "pass" : check.on_failure, describeCheck(check)]);
  const lines = [...verified.map((text) => ["pass", text]), ...own];
  const item = ([outcome, text]) => html`<li key=${text} className=${outcome}>${text}</li>`;
  return lines.length > 0 && html`
    <${Section} title="Verified before the commit"><ul className="checks">${lines.map(item)}</ul><//>`;
}

export function Rejected({ report: { rows_rejected: count, rejected } }) {
  if (!count) {
    return null;
  }
  const rows = rejected.map(({ file, reason, rows }) => [file, reason, formatCount(rows)]);
  const head = ["file", "reason", "rows"];
  return html`<${TableSection} title="Rejected rows" note=${countOf(count, "row")} head=${head} rows=${rows} />`;
}

export function Partitions({ report: { partitions, replaced } }) {
  const names = Object.keys({ ...partitions, ...replaced }).sort();
  const [shown, more] = useFirst(names, FIRST_PARTITIONS);
  if (!names.length) {
    return null;
  }
  const most = Object.values(partitions).reduce((one, other) => Math.max(one, other), 0);
  const rows = shown.map((name) => [
    name,
    html`<${Bar} value=${partitions[name] ?? 0} most=${most} />`,
    formatCount(replaced[name] ?? 0),
  ]);
  return html`
    <${Section} title="Partitions" note=${countOf(names.length, "partition")}>
      <${Table} label="Partitions" head=${["partition", "rows added", "rows replaced"]} rows=${rows} />
      ${more}
    <//>`;
}

// The ledger knows them: they are read when somebody wants to see them.
export function Files({ report, connection }) {
  const [isShown, setIsShown] = useState(false);
  if (!isShown) {
    return html`
      <${Section} title="Files" note=${countOf(report.files_listed ?? report.files_read, "file")}>
        <button type="button" onClick=${() => setIsShown(true)}>Show the files</button>
      <//>`;
  }
  // The chunks of a load are attempts of their own, which the id of the load names together.
  const load = report.chunks > 1 ? report.query_id.replace(/-\d+-\d+-insert$/, "") : report.query_id;
  // The ledger is in the database of the table, unless the connection names another one.
  const [database, table] = report.table.split(".");
  return html`<${LoadFiles} load=${load} where=${{ conn_id: connection, database: table ? database : "" }} />`;
}

function SettingsTable({ label, settings }) {
  const rows = settings.map(([name, { value, origin, reason }]) => [
    name,
    html`<code>${String(value)}</code>`,
    origin,
    html`<span className="reason">${reason}</span>`,
  ]);
  return html`<${Table} label=${label} head=${["setting", "value", "origin", "reason"]} rows=${rows} />`;
}

export function Settings({ report: { settings, left_out_settings: leftOut } }) {
  const all = Object.entries(settings);
  // An INSERT that was taken over without its plan has none that is known to be notable.
  const notable = all.filter(([, setting]) => setting.is_notable ?? true);
  const others = all.filter((setting) => !notable.includes(setting));
  const omitted = Object.entries(leftOut).map(([name, reason]) => [name, { ...LEFT_OUT, reason }]);
  const rest = html`
    <details>
      <summary>${countOf(others.length, "more setting")} as the server has them</summary>
      <${SettingsTable} label="Other settings" settings=${others} />
    </details>`;
  return html`
    <${Section} title="Settings" note="that the SQL names">
      <${SettingsTable} label="Settings" settings=${[...notable, ...omitted]} />
      ${others.length > 0 && rest}
    <//>`;
}

export const Sql = ({ text }) => html`
  <${Section} title="SQL" note=${html`<${CopyButton} text=${text} what="the SQL" />`}>
    <pre className="scroll" tabIndex=${0}>${text}</pre>
  <//>`;
