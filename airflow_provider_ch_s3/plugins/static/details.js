// What was verified, the partitions, the settings with their reasons, and the SQL.

import { Bar, CopyButton, Section, Table } from "./elements.js";
import { countOf, formatCount } from "./format.js";
import { h, useState } from "./react.js";

const FIRST_PARTITIONS = 20;

export function Checks({ checks }) {
  if (!checks.length) {
    return null;
  }
  return h(
    Section,
    { title: "Verified before the commit" },
    h(
      "ul",
      { className: "checks" },
      checks.map((check) => h("li", { key: check }, check)),
    ),
  );
}

// Reports of earlier releases have no rejected rows.
export function Rejected({ report: { rows_rejected: count = 0, rejected = [] } }) {
  if (!count) {
    return null;
  }
  return h(
    Section,
    { title: "Rejected rows", note: countOf(count, "row") },
    h(Table, {
      label: "Rejected rows",
      head: ["file", "reason", "rows"],
      rows: rejected.map(({ file, reason, rows }) => [file, reason, formatCount(rows)]),
    }),
  );
}

export function Partitions({ report: { partitions, replaced } }) {
  const [isWhole, setIsWhole] = useState(false);
  const names = Object.keys({ ...partitions, ...replaced }).sort();
  if (!names.length) {
    return null;
  }
  const most = Object.values(partitions).reduce((one, other) => Math.max(one, other), 0);
  const shown = isWhole ? names : names.slice(0, FIRST_PARTITIONS);
  return h(
    Section,
    { title: "Partitions", note: countOf(names.length, "partition") },
    h(Table, {
      label: "Partitions",
      head: ["partition", "rows added", "rows replaced"],
      rows: shown.map((name) => [
        name,
        h(Bar, { value: partitions[name] ?? 0, most }),
        formatCount(replaced[name] ?? 0),
      ]),
    }),
    shown.length < names.length &&
      h("button", { type: "button", onClick: () => setIsWhole(true) }, `Show all ${formatCount(names.length)}`),
  );
}

function SettingsTable({ label, settings }) {
  return h(Table, {
    label,
    head: ["setting", "value", "origin", "reason"],
    rows: settings.map(([name, { value, origin, reason }]) => [
      name,
      h("code", null, String(value)),
      origin,
      h("span", { className: "reason" }, reason),
    ]),
  });
}

export function Settings({ report: { settings, left_out_settings: leftOut } }) {
  const all = Object.entries(settings);
  const [notable, others] = [true, false].map((wanted) =>
    // An INSERT that was taken over without its plan has none that is known to be notable.
    all.filter(([, setting]) => (setting.is_notable ?? true) === wanted),
  );
  const omitted = Object.entries(leftOut).map(([name, reason]) => [name, { value: "–", origin: "left out", reason }]);
  return h(
    Section,
    { title: "Settings", note: "that differ from the server's own, or protect the data" },
    h(SettingsTable, { label: "Settings", settings: [...notable, ...omitted] }),
    others.length > 0 &&
      h(
        "details",
        null,
        h("summary", null, `${countOf(others.length, "more setting")} as the server has them`),
        h(SettingsTable, { label: "Other settings", settings: others }),
      ),
  );
}

export function Sql({ text }) {
  return h(
    Section,
    { title: "SQL", note: h(CopyButton, { text, what: "the SQL" }) },
    h("pre", { className: "scroll", tabIndex: 0 }, text),
  );
}
