// What was verified, the partitions, the files, the settings with their reasons, and the SQL.

import { Bar, CopyButton, Section, Table, TableSection, useFirst } from "./elements.js";
import { countOf, formatCount, formatSetting } from "./format.js";
import { ledgerIdOf, ledgerOf } from "./ledger_api.js";
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

// A value without earlier loads to compare with has neither passed nor failed.
const isCompared = ({ left, comparison }) => Boolean(comparison) || (left ?? null) === null;
const outcomeOf = (check) => (check.passed ? (isCompared(check) ? "pass" : "open") : check.on_failure);

// What was verified, and the task's own checks: passed, not compared, not fulfilled with a warning, or failed.
export function Checks({ verified, checks }) {
  const own = checks.map((check) => [outcomeOf(check), describeCheck(check)]);
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
  return html`<${LoadFiles} load=${ledgerIdOf(report)} where=${ledgerOf(report, connection)} />`;
}

function SettingsTable({ label, settings }) {
  const rows = settings.map(([name, { value, origin, reason }]) => [
    name,
    html`<code>${formatSetting(name, value)}</code>`,
    origin,
    html`<span className="reason">${reason}</span>`,
  ]);
  return html`<${Table} label=${label} head=${["setting", "value", "origin", "reason"]} rows=${rows} />`;
}

export function Settings({ planned: { settings, left_out_settings: leftOut } }) {
  const all = Object.entries(settings);
  // An INSERT that was taken over without its plan has none that is known to be notable.
  const notable = all.filter(([, setting]) => setting.is_notable ?? true);
  const others = all.filter((setting) => !notable.includes(setting));
  const omitted = Object.entries(leftOut).map(([name, reason]) => [name, { ...LEFT_OUT, reason }]);
  const folded = (title, label, some) => some.length > 0 && html`
    <details>
      <summary>${title}</summary>
      <${SettingsTable} label=${label} settings=${some} />
    </details>`;
  return html`
    <${Section} title="Settings" note=${countOf(all.length, "setting")}>
      ${folded(`${formatCount(notable.length + omitted.length)} that the SQL names`, "Settings", [...notable, ...omitted])}
      ${folded(`${formatCount(others.length)} as the server has them`, "Other settings", others)}
    <//>`;
}

export const Sql = ({ text }) => html`
  <${Section} title="SQL" note=${html`<${CopyButton} text=${text} what="the SQL" />`}>
    <details><summary>The INSERT</summary><pre className="scroll" tabIndex=${0}>${text}</pre></details>
  <//>`;
