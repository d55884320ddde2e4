// Which ledger the page shows, and which loads in it.

import { h, useEffect, useState } from "./react.js";

const STATES = [
  ["", "all"],
  ["open", "open"],
  ["committed", "committed"],
  ["abandoned", "abandoned"],
];
const TIMES = [
  ["", "at any time"],
  ["1", "in the last day"],
  ["7", "in the last 7 days"],
  ["30", "in the last 30 days"],
  ["365", "in the last year"],
];

function Choice({ label, value, options, choose }) {
  // What an address asks for is shown, even if there is no such thing.
  const all = options.some(([known]) => known === value) ? options : [...options, [value, value]];
  return h(
    "label",
    null,
    label,
    h(
      "select",
      { value, onChange: (event) => choose(event.target.value) },
      all.map(([known, text]) => h("option", { key: known, value: known }, text)),
    ),
  );
}

export function Filters({ filters, page, change, refresh }) {
  const [connection, setConnection] = useState(filters.conn_id);
  useEffect(() => setConnection(filters.conn_id), [filters.conn_id]);
  const named = (names) => names.map((name) => [name, name]);

  function submit(event) {
    event.preventDefault();
    if (connection === filters.conn_id) {
      refresh();
    } else {
      change({ conn_id: connection, ledger: "", table: "" });
    }
  }
  return h(
    "form",
    { className: "filters", onSubmit: submit },
    h(
      "label",
      null,
      "Connection",
      h("input", { value: connection, required: true, onChange: (event) => setConnection(event.target.value) }),
    ),
    h(Choice, {
      label: "Ledger",
      value: filters.ledger || page?.ledger || "",
      options: page ? named(page.ledgers) : [["", "default"]],
      choose: (ledger) => change({ ledger, table: "" }),
    }),
    h(Choice, {
      label: "Table",
      value: filters.table,
      options: [["", "all"], ...named((page?.tables ?? []).map(({ table }) => table))],
      choose: (table) => change({ table }),
    }),
    h(Choice, { label: "State", value: filters.state, options: STATES, choose: (state) => change({ state }) }),
    h(Choice, { label: "Planned", value: filters.days, options: TIMES, choose: (days) => change({ days }) }),
    h("button", { type: "submit" }, connection === filters.conn_id ? "Refresh" : "Open"),
  );
}
