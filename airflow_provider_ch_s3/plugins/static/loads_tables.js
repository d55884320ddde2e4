// The tables of the ledger: when each was loaded last, and what it holds.

import { Section, Table } from "./elements.js";
import { countOf, formatCount } from "./format.js";
import { formatAge } from "./loads_elements.js";
import { h, useState } from "./react.js";

const FIRST_TABLES = 10;

function Action({ label, act, children }) {
  return h("button", { type: "button", onClick: act, "aria-label": label }, children);
}

export function Tables({ tables, filter, showFiles }) {
  const [isWhole, setIsWhole] = useState(false);
  const shown = isWhole ? tables : tables.slice(0, FIRST_TABLES);
  return h(
    Section,
    { title: "Tables", note: countOf(tables.length, "table") },
    h(Table, {
      label: "Tables",
      head: ["table", "commits", "last commit", "show"],
      rows: shown.map(({ table, commits, idle_seconds: idle }) => [
        table,
        formatCount(commits),
        idle === null ? "never" : `${formatAge(idle)} ago`,
        h(
          "span",
          { className: "actions" },
          h(Action, { label: `Loads of ${table}`, act: () => filter(table) }, "Loads"),
          h(Action, { label: `Files in ${table}`, act: () => showFiles(table) }, "Files"),
        ),
      ]),
    }),
    shown.length < tables.length &&
      h("button", { type: "button", onClick: () => setIsWhole(true) }, `Show all ${formatCount(tables.length)}`),
  );
}
