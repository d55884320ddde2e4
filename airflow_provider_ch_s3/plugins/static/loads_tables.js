// The tables of the ledger: when each was loaded last, and what it holds.

import { Section, Table } from "./elements.js";
import { countOf, formatCount, formatSeconds } from "./format.js";
import { h, useState } from "./react.js";

const FIRST_TABLES = 10;

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
        idle === null ? "never" : `${formatSeconds(idle)} ago`,
        h(
          "span",
          { className: "actions" },
          h("button", { type: "button", onClick: () => filter(table), "aria-label": `Loads of ${table}` }, "Loads"),
          h("button", { type: "button", onClick: () => showFiles(table), "aria-label": `Files in ${table}` }, "Files"),
        ),
      ]),
    }),
    shown.length < tables.length &&
      h("button", { type: "button", onClick: () => setIsWhole(true) }, `Show all ${formatCount(tables.length)}`),
  );
}
